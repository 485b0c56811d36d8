//! Lists outputs of `tardy show` and `tardy compare` that have no contradictions.

pub(super) const PASSED: &str = "\
board7: cyclic every 1ms on CPUs 0-1, 3.00 s measured
PASSED: 0 misses in 6000 due times: fewer than 63000 an hour on 2 CPUs together
  at 95 %, over this mixture of loads; 5 skipped due times would have met the deadline (--skipped limits such periods)
worst load: hackbench, 1.48 ms; idle, 1.36 ms
latency             samples  skipped      min   median     mean    99.9 %      max      at  misses  longest burst
CPU 0                  2995        5  12.5 us  16.5 us  20.3 us  ~1.16 ms  1.48 ms  2.11 s       0              0
CPU 1                  3000        0  13.6 us  18.2 us  21.4 us   ~953 us   968 us  375 ms       0              0
all                    5995        5  12.5 us  17.5 us  20.9 us   ~968 us  1.48 ms  2.11 s       0              0
upper bound (95 %)                             17.8 us             n>=65k
with skipped           6000                    17.6 us            ~965 us
  ~ no upper bound yet; n>= is the number of samples that a bound needs
load       times  length  samples   median    99.9 %      max  misses  an hour, 95 %  verdict
hackbench      1  2.00 s     3988  18.3 us   ~494 us  1.48 ms       0        < 90000   passed
idle           1  1.00 s     1999  15.3 us  ~1.13 ms  1.36 ms       0        < 34000   passed
sampling gap 1ms: a delay may be that much longer, or unseen if shorter
Do you need PREEMPT_RT? No: Linux 6.18.44-fc-v657 PREEMPT_DYNAMIC (none)
  (largest 1.48 ms) met the deadline of 2ms. Decided by the measurement.
vm: Linux 6.18.44-fc-v657 x86_64 PREEMPT_DYNAMIC (none), virtual machine
";

pub(super) const FAILED: &str = "\
two/a: cyclic every 1ms on CPUs 0-1, 999 ms measured
FAILED: cyclic on CPU 1 alone: 8 of 1000 due times missed the deadline of 2ms (5
  of them skipped): the true share is between 1.150e-3 and 2.715e-2 (each bound at 95 %); more
  than the 1e-3 allowed; 6 skipped due times would have met the deadline (--skipped limits such periods)
latency             samples  skipped   median    99.9 %      max  misses
CPU 1                   989       11  30.5 us  ~4.52 ms  4.52 ms       8
CPU 0                   996        4  26.5 us  ~1.95 ms  1.95 ms       0
all                    1985       15  28.5 us  ~4.27 ms  4.52 ms       8
with skipped           2000           28.6 us  ~3.52 ms
Do you need PREEMPT_RT? Perhaps: Linux 6.18.44-fc-v657 PREEMPT_DYNAMIC (none)
  (largest 4.52 ms) missed the deadline of 2ms; the host of this virtual machine
  may be the cause.
";

pub(super) const LARGEST: &str = "\
cut-off: cyclic every 1ms on CPU 1, 2.03 s measured, CUT OFF
Largest latency: 14.5 ms (CPU 1). Half of all wake-ups within 31.1 us, 99 % within
  45.6 us.
Shortest deadline that held: 14.5 ms.
latency             samples  skipped   median      99 %    99.9 %      max
CPU 1                  2018       16  31.1 us  ~45.6 us  ~1.05 ms  14.5 ms
with skipped           2034           31.2 us   ~276 us  ~12.5 ms
deadline  50us  100us  200us  500us  1ms
misses      34     29     21     18   16
     1 █▁                ▁
       '100 us  '1 ms            max 14.5 ms
";

pub(super) const BETTER: &str = "\
new against base: BETTER: better in 2 of 3 rows (procfs: median 22 times shorter),
  undecided in 1 (margin 5 %)
base -> new            median            99.9 %                 max       verdict
idle         ~14.8 -> 14.8 us  ~19.7 -> 18.6 us     ~342 -> 25.4 us  inconclusive
io           22.6 -> 15.3 us*  ~10.2 -> 5.53 ms    ~10.7 -> 11.8 ms        better
procfs        342 -> 15.3 us*   ~953 -> 73.1 us  ~1.22 ms -> 163 us        better
* decides the verdict of its row
~ not compared, or undecided
next: tardy compare base new --full
";

pub(super) const SAME: &str = "\
two/a against two/a: EQUIVALENT: both have the same samples (margin 5 %)
base -> new                  median                     max     verdict
whole run    28.5 -> 28.5 us (+0 %)  4.52 -> 4.52 ms (+0 %)  equivalent
";

pub(super) const ALLOWED: &str = "\
run: cyclic every 1ms on CPUs 0-2, 4.01 s measured
PASSED: 31 of 12019 due times missed the deadline of 228us (19 of them skipped): the true share is between
  8.597e-4 and 6.404e-3 (each bound at 95 %); not more than the 1e-1 allowed; 19 periods were skipped, not more than the 1e-1
  allowed (95 % confidence)
worst load: io, 2.29 ms; idle, 2.25 ms
latency             samples  skipped      min   median     mean     99 %    99.9 %  99.999 %      max      at  misses
CPU 1                  4000       14  54.9 us  82.4 us  86.3 us   109 us  ~2.25 ms  ~2.29 ms  2.29 ms  2.92 s      21
CPU 2                  4000        5  10.5 us  12.4 us  14.8 us  14.2 us  ~1.98 ms  ~1.99 ms  1.99 ms  3.49 s      10
CPU 0                  4000        0  29.0 us  41.6 us  43.8 us  ~155 us   ~167 us   ~167 us   167 us  1.83 s       0
all                   12000       19  10.5 us  41.6 us  48.3 us   109 us   ~167 us  ~2.29 ms  2.29 ms  2.92 s      31
upper bound (95 %)                             42.4 us            160 us    n>=40k   n>=4.0M
with skipped          12019                    41.7 us            109 us  ~1.29 ms  ~2.29 ms
  ~ no upper bound yet; n>= is the number of samples that a bound needs
load       times  length  samples    median    99.9 %  99.999 %      max  misses  an hour, 95 %       verdict
io             1  2.00 s     5986   41.6 us  ~1.99 ms  ~2.29 ms  2.29 ms      23       < 110000        passed
idle           1  2.00 s     5995   41.5 us   ~167 us  ~2.25 ms  2.25 ms       8        < 63000        passed
hackbench      1  2.00 s       19  ~70.9 us  ~99.1 us  ~99.1 us  99.1 us       0              -  inconclusive
memory         1  2.00 s        -
sampling gap 1ms: a delay may be that much longer, or unseen if shorter
Do you need PREEMPT_RT? No: Linux 6.12.0 PREEMPT_LAZY (largest 2.29 ms) met the deadline of 228us. Decided by the
  measurement.
board7: Linux 6.12.0 PREEMPT_LAZY, virtual machine
next: tardy report run --html run.html | tardy show run --full
";

pub(super) const NARROW: &str = "\
run: cyclic every 1ms on CPUs 0-2, 2.52 s measured
FAILED: 24 of 7516 due times missed the deadline of 402us
  (16 of them skipped); 16 periods were skipped, but none
  may be skipped if the deadline is at most the period
  (--skipped N allows N)
worst load: fork, 2.79 ms; idle, 69.0 us
latency              median    99.9 %      max  misses
CPU 0               30.0 us  ~2.78 ms  2.79 ms      24
CPU 1               60.7 us  ~69.0 us   201 us       0
CPU 2               40.6 us  ~51.8 us  51.8 us       0
all                 40.7 us  ~2.78 ms  2.79 ms      24
upper bound (95 %)  41.4 us    n>=14k
with skipped        40.7 us  ~2.78 ms
  ~ no upper bound yet; n>= is the number of samples that a bound needs
load    samples   median    99.9 %      max  misses  verdict
fork       1510  40.3 us  ~2.78 ms  2.79 ms       9   failed
4 more
Do you need PREEMPT_RT? Perhaps: Linux 6.12.0 PREEMPT
  (largest 2.79 ms) missed the deadline of 402us; measure a
  PREEMPT_RT kernel under the same loads. Decided by the
  measurement.
next: tardy report run --html run.html
      tardy show run --full
";

pub(super) const NARROW_BETTER: &str = "\
new against base: BETTER: better in 1 of 4 rows (whole run:
  99 % quantile -27.7 us), undecided in 3 (margin 5 %)
! 1 run against 1 run: each run is assumed to vary by 8.5 %
  (standard deviation); 4 runs per side would measure that,
  --between-runs states it
base -> new                          verdict
idle                            inconclusive
fork                            inconclusive
io                              inconclusive
whole run    better: 99 % 101 us -> 73.8 us*
* decides the verdict of its row
~ not compared, or undecided
known for one side only: 4 facts, see --format json
next: tardy compare base new --full
";

pub(super) const MIXED: &str = "\
new against base: MIXED: better in 5 of 6 rows (reclaim: median -33.8 us), better and worse in 1 (whole run: median -33.3 us, maximum 6.5 times longer) (margin
  5 %)
! 1 run against 1 run: each run is assumed to vary by 8.5 % (standard deviation); 4 runs per side would measure that, --between-runs states it
base -> new                    median                    99.9 %                      max  verdict
whole run    72.0 -> 38.7 us (-46 %)*   ~86.5 -> 564 us (x 6.5)  86.6 -> 565 us (x 6.5)*    mixed
hackbench    72.0 -> 38.8 us (-46 %)*   ~86.5 -> 564 us (x 6.5)  ~86.6 -> 565 us (x 6.5)   better
io           72.0 -> 38.6 us (-46 %)*   ~86.5 -> 562 us (x 6.5)  ~86.5 -> 564 us (x 6.5)   better
fork         71.2 -> 38.8 us (-45 %)*   ~86.5 -> 562 us (x 6.5)  ~86.5 -> 564 us (x 6.5)   better
idle         72.1 -> 38.7 us (-46 %)*   ~86.5 -> 561 us (x 6.5)  ~86.5 -> 565 us (x 6.5)   better
reclaim      72.5 -> 38.7 us (-47 %)*  ~86.5 -> 41.6 us (-52 %)  ~86.5 -> 561 us (x 6.5)   better
* decides the verdict of its row
~ not compared, or undecided
known for one side only: 4 facts, see --format json
next: tardy compare base new --full
";

pub(super) const OPEN: &str = "\
new against base: INCONCLUSIVE: 50 % quantile of cyclic latency under idle: +14.4 us may or may not exceed the margin: 4
  runs per side would show more (margin 5 %)
! 1 run against 1 run: each run is assumed to vary by 8.5 % (standard deviation); 4 runs per side would measure that,
  --between-runs states it
base -> new                    median                      99.9 %                         max       verdict
hackbench    ~44.0 -> 58.4 us (+33 %)  ~83.9 us -> 6.22 ms (x 74)  ~84.0 us -> 6.24 ms (x 74)  inconclusive
idle         44.0 -> 58.4 us (+33 %)*  ~84.0 us -> 6.22 ms (x 74)    ~1.55 -> 6.24 ms (x 4.0)  inconclusive
whole run    ~44.0 -> 58.3 us (+32 %)     ~84.0 -> 76.8 us (-8 %)    ~5.58 -> 6.24 ms (+12 %)  inconclusive
memory       ~44.0 -> 58.1 us (+32 %)     ~84.0 -> 76.8 us (-8 %)    ~5.58 -> 6.24 ms (+12 %)  inconclusive
io           ~44.0 -> 58.1 us (+32 %)    ~5.55 -> 1.56 ms (/ 3.6)    ~5.57 -> 6.23 ms (+12 %)  inconclusive
* decides the verdict of its row
~ not compared, or undecided
known for one side only: 4 facts, see --format json
next: tardy compare base new --full
";

pub(super) const OPEN_BETTER: &str = "\
new against base: BETTER: better in 2 of 5 rows (idle: maximum 27 times shorter), undecided in 3, so inconclusive as a whole (margin 5 %)
! 1 run against 1 run: each run is assumed to vary by 8.5 % (standard deviation); 4 runs per side would measure that, --between-runs states it
base -> new                    median                      99.9 %                         max       verdict
fork         ~34.1 -> 42.9 us (+26 %)  ~850 us -> 5.50 ms (x 6.5)  ~860 us -> 5.51 ms (x 6.4)  inconclusive
hackbench    ~34.3 -> 42.8 us (+25 %)    ~3.96 -> 5.50 ms (+39 %)    ~3.96 -> 5.51 ms (+39 %)  inconclusive
whole run    ~34.2 -> 42.6 us (+25 %)   ~3.96 ms -> 132 us (/ 30)    ~3.96 -> 5.51 ms (+39 %)  inconclusive
idle         ~34.3 -> 42.8 us (+25 %)      ~919 -> 71.6 us (/ 13)   3.96 ms -> 148 us (/ 27)*        better
memory       ~34.3 -> 42.0 us (+22 %)  ~3.96 ms -> 71.5 us (/ 55)   3.96 ms -> 154 us (/ 26)*        better
* decides the verdict of its row
~ not compared, or undecided
known for one side only: 4 facts, see --format json
next: tardy compare base new --full
";
