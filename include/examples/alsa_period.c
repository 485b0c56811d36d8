/* Plays one period of sound after another, in a loop that tardy measures:
 *
 *     cc -O2 -I include -o alsa_period include/examples/alsa_period.c -lasound
 *     tardy run --load none --for 10s -- ./alsa_period default
 *
 * A cycle is due when the sound card's interrupt reports that a period has been played (the
 * hardware's time stamp), and done when the next period is written. The card's clock differs from
 * the system's, so the due times form no grid, and the loop is opened without a period. A cycle
 * that is late by more than the sound left in the buffer causes an underrun, which the program
 * counts.
 *
 * The program plays silence for 22500 periods, which take a minute. `./alsa_period --help` lists
 * its arguments.
 */
#define _GNU_SOURCE
#include <alsa/asoundlib.h>
#include <stdio.h>

#include "../tardy.h"

enum { RATE = 48000, CHANNELS = 2 };

static int fail(const char *what, int error)
{
    fprintf(stderr, "alsa_period: %s: %s\n", what, snd_strerror(error));
    return 3;
}

static const char usage[] =
    "usage: alsa_period [DEVICE [FRAMES [PERIODS [CYCLES]]]]\n"
    "  DEVICE   as ALSA names it (default); null plays nothing, at no pace\n"
    "  FRAMES   frames in a period (128)\n"
    "  PERIODS  periods in the buffer (3)\n"
    "  CYCLES   periods to play until it ends (22500)\n";

/* Returns argument `place`, a whole number above 0; `usual` if it is not given. */
static unsigned argument(int argc, char **argv, int place, unsigned usual)
{
    char *end;
    long value;

    if (place >= argc)
        return usual;
    value = strtol(argv[place], &end, 10);
    if (end == argv[place] || *end || value < 1 || value > 1000000) {
        fputs(usage, stderr);
        exit(2);
    }
    return (unsigned)value;
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "default";
    snd_pcm_uframes_t period = argument(argc, argv, 2, 128);
    unsigned periods = argument(argc, argv, 3, 3);
    unsigned cycles = argument(argc, argv, 4, 22500);
    unsigned latency_us = (unsigned)(period * periods * UINT64_C(1000000) / RATE);
    int16_t *silence = (int16_t *)calloc(period * CHANNELS, sizeof *silence);
    unsigned long underruns = 0;
    struct tardy_loop loop;
    snd_pcm_sw_params_t *software;
    snd_pcm_status_t *status;
    snd_pcm_t *pcm;
    int error;

    if (device[0] == '-') {
        fputs(usage, stderr);
        return 2;
    }
    if ((error = snd_pcm_open(&pcm, device, SND_PCM_STREAM_PLAYBACK, 0)) < 0)
        return fail(device, error);
    if ((error = snd_pcm_set_params(pcm, SND_PCM_FORMAT_S16, SND_PCM_ACCESS_RW_INTERLEAVED, CHANNELS, RATE, 1, latency_us)) < 0)
        return fail("parameters", error);
    snd_pcm_sw_params_alloca(&software);
    snd_pcm_status_alloca(&status);
    snd_pcm_sw_params_current(pcm, software);
    snd_pcm_sw_params_set_avail_min(pcm, software, period);
    snd_pcm_sw_params_set_tstamp_mode(pcm, software, SND_PCM_TSTAMP_ENABLE);
    snd_pcm_sw_params_set_tstamp_type(pcm, software, SND_PCM_TSTAMP_TYPE_MONOTONIC);
    if ((error = snd_pcm_sw_params(pcm, software)) < 0)
        return fail("time stamps", error);

    error = tardy_open(&loop, "audio", 0);
    if (error < 0)
        fprintf(stderr, "alsa_period: not measured: %s\n", strerror(-error));
    while (cycles-- > 0) {
        snd_htimestamp_t stamp = { 0, 0 };
        if (snd_pcm_wait(pcm, 1000) == 1 && snd_pcm_status(pcm, status) == 0)
            snd_pcm_status_get_htstamp(status, &stamp);
        /* A device without an interrupt gives no time stamp, so the cycle is due now. */
        tardy_due(&loop, stamp.tv_sec || stamp.tv_nsec ? tardy_nanos(&stamp) : tardy_now());
        error = (int)snd_pcm_writei(pcm, silence, period);
        tardy_done(&loop);
        if (error == -EPIPE) {
            fprintf(stderr, "alsa_period: underrun %lu\n", ++underruns);
            snd_pcm_prepare(pcm);
        } else if (error < 0) {
            return fail("write", error);
        }
    }
    tardy_close(&loop);
    return 0;
}
