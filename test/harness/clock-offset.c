/* LD_PRELOAD for redis-server: a test sets its wall clock while it runs. The file that STAMPEDE_CLOCK_OFFSET names has
   three signed numbers of 8 bytes, little-endian: the offset in microseconds, how many times slower than real time the
   clock runs (0: as fast), and the moment, in microseconds, from which it is slow. Only the wall clock changes: TIME
   and the expiry of keys. Raw system calls, because jemalloc asks for the time before dlsym works. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { OFFSET, SLOWNESS, SLOW_SINCE, NUMBERS };
static volatile int64_t none[NUMBERS];
static volatile int64_t *numbers = none;

__attribute__((constructor)) static void map_offset(void) {
  const char *path = getenv("STAMPEDE_CLOCK_OFFSET");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *shared = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (shared != MAP_FAILED) numbers = shared;
}

static int64_t wall_micros(void) {
  struct timespec real;
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
  int64_t micros = (int64_t)real.tv_sec * 1000000 + real.tv_nsec / 1000;
  int64_t slowness = numbers[SLOWNESS], since = numbers[SLOW_SINCE];
  if (slowness > 1 && micros > since) micros = since + (micros - since) / slowness;
  return micros + numbers[OFFSET];
}

int clock_gettime(clockid_t clock, struct timespec *to) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) {
    return (int)syscall(SYS_clock_gettime, clock, to);
  }
  int64_t micros = wall_micros();
  to->tv_sec = micros / 1000000;
  to->tv_nsec = micros % 1000000 * 1000;
  return 0;
}

int gettimeofday(struct timeval *to, void *zone) {
  (void)zone;
  int64_t micros = wall_micros();
  to->tv_sec = micros / 1000000;
  to->tv_usec = micros % 1000000;
  return 0;
}

time_t time(time_t *to) {
  time_t seconds = wall_micros() / 1000000;
  if (to) *to = seconds;
  return seconds;
}
