// A time of day that a test sets, for the program that this is linked into, by
// SteppingClockSetAhead, or for one that is started with this in LD_PRELOAD:
// the file that STEPPING_CLOCK names then holds, as eight bytes, how many
// nanoseconds it is ahead of the machine's. A step does what the kernel makes
// it do: an absolute wait for a time of day ends when that has come, and a
// timer that steps cancel is cancelled. No other clock moves.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define LOOK (5 * INT64_C(1000000))  // how often a wait looks for steps

static _Atomic int64_t own_ahead;
static const _Atomic int64_t* ahead = &own_ahead;
static _Atomic int timer_fd = -1;
static _Atomic int64_t timer_ahead;

__attribute__((constructor)) static void Open(void) {
  const char* path = getenv("STEPPING_CLOCK");
  const int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  void* page = mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (page != MAP_FAILED) ahead = page;
}

void SteppingClockSetAhead(int64_t ns) { own_ahead = ns; }

static int64_t Ahead(void) { return *ahead; }

static int64_t Nanoseconds(const struct timespec* time) {
  return time->tv_sec * SECOND + time->tv_nsec;
}

static struct timespec Timespec(int64_t ns) {
  return (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
}

static int RealGettime(clockid_t clock, struct timespec* time) {
  static int (*_Atomic real)(clockid_t, struct timespec*);
  if (real == NULL) real = dlsym(RTLD_NEXT, "clock_gettime");
  return real(clock, time);
}

static int64_t MachineTime(void) {
  struct timespec now;
  RealGettime(CLOCK_REALTIME, &now);
  return Nanoseconds(&now);
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  const int result = RealGettime(clock, time);
  if (result == 0 &&
      (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    *time = Timespec(Nanoseconds(time) + Ahead());
  }
  return result;
}

int gettimeofday(struct timeval* restrict time, void* restrict zone) {
  (void)zone;
  const int64_t now = MachineTime() + Ahead();
  time->tv_sec = now / SECOND;
  time->tv_usec = now % SECOND / 1000;
  return 0;
}

time_t time(time_t* result) {
  const time_t now = (MachineTime() + Ahead()) / SECOND;
  if (result != NULL) *result = now;
  return now;
}

// abseil's mutexes wait by this.
long syscall(long number, ...) {
  static long (*_Atomic real)(long, ...);
  if (real == NULL) real = dlsym(RTLD_NEXT, "syscall");
  va_list rest;
  va_start(rest, number);
  long argument[6];
  for (int i = 0; i < 6; ++i) argument[i] = va_arg(rest, long);
  va_end(rest);
  const struct timespec* until = (const struct timespec*)argument[3];
  if (number != SYS_futex || (argument[1] & FUTEX_CLOCK_REALTIME) == 0 ||
      until == NULL) {
    return real(number, argument[0], argument[1], argument[2], argument[3],
                argument[4], argument[5]);
  }
  for (;;) {
    const int64_t now = MachineTime();
    const int64_t left = Nanoseconds(until) - (now + Ahead());
    const struct timespec look = Timespec(now + (left < LOOK ? left : LOOK));
    const long result = real(number, argument[0], argument[1], argument[2],
                             &look, argument[4], argument[5]);
    if (result == 0 || errno != ETIMEDOUT ||
        MachineTime() + Ahead() >= Nanoseconds(until)) {
      return result;
    }
  }
}

int timerfd_settime(int fd, int flags, const struct itimerspec* value,
                    struct itimerspec* old) {
  static int (*_Atomic real)(int, int, const struct itimerspec*,
                             struct itimerspec*);
  if (real == NULL) real = dlsym(RTLD_NEXT, "timerfd_settime");
  if ((flags & TFD_TIMER_CANCEL_ON_SET) != 0) {
    timer_ahead = Ahead();
    timer_fd = fd;
  }
  return real(fd, flags, value, old);
}

ssize_t read(int fd, void* bytes, size_t size) {
  static ssize_t (*_Atomic real)(int, void*, size_t);
  if (real == NULL) real = dlsym(RTLD_NEXT, "read");
  if (fd < 0 || fd != timer_fd) return real(fd, bytes, size);
  const struct timespec look = Timespec(LOOK);
  while (Ahead() == timer_ahead) nanosleep(&look, NULL);
  timer_ahead = Ahead();
  errno = ECANCELED;
  return -1;
}
