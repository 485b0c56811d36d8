/* Calls rx_frame and, after a sleep, tx_frame: `functions ROUNDS SLEEP_US`. It waits for a line of
 * input before the first round. After the last round, it prints the time between the two calls of
 * each round, in ns, and waits for another line. Every tenth round calls rx_frame twice. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static volatile int64_t received;

__attribute__((noinline, noclone)) void rx_frame(void)
{
	received = now();
}

__attribute__((noinline, noclone)) void tx_frame(void)
{
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10;
	struct timespec sleep = { 0, argc > 2 ? atol(argv[2]) * 1000 : 1000000 };
	int64_t sent[1000];
	int64_t took[1000];

	if (rounds > 1000)
		rounds = 1000;
	if (getchar() == EOF)
		return 1;
	for (int round = 0; round < rounds; round++) {
		rx_frame();
		if (round % 10 == 9)
			rx_frame();
		nanosleep(&sleep, NULL);
		sent[round] = now();
		tx_frame();
		took[round] = sent[round] - received;
	}
	for (int round = 0; round < rounds; round++)
		printf("%lld\n", (long long)took[round]);
	fflush(stdout);
	return getchar() == EOF;
}
