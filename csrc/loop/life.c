/* See life.h. Descriptors are opened with the first use, all of them here. */
#include "loop/life.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "loop/owner.h"
#include "loop/thread.h"

/* A loop's poll, its event, its pipe for signals and that of all loops, and
 * the renewal thread's event. */
#define DESCRIPTORS 7

/* ---- birth ---- */

static void destroy_sync(struct dlk_loop *l) {
  pthread_cond_destroy(&l->freed);
  pthread_mutex_destroy(&l->lock);
}

bool dlk_loop_init(struct dlk_loop *l, const struct dlk_loop_calls *calls) {
  pthread_condattr_t attr;
  l->calls = calls;
  l->tick_at = l->slice_end = DLK_FOREVER;
  atomic_init(&l->watch_fd, -1);
  if (pthread_mutex_init(&l->lock, NULL) != 0)
    return false;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  int rc = pthread_cond_init(&l->freed, &attr);
  pthread_condattr_destroy(&attr);
  if (rc != 0) {
    pthread_mutex_destroy(&l->lock);
    return false;
  }
  if (dlk_sleeper_init(&l->sleeper)) {
    if (dlk_wakeup_init(&l->wakeup))
      return true;
    dlk_sleeper_destroy(&l->sleeper);
  }
  destroy_sync(l);
  return false;
}

void dlk_loop_destroy(struct dlk_loop *l) {
  dlk_wakeup_destroy(&l->wakeup);
  dlk_sleeper_destroy(&l->sleeper);
  destroy_sync(l);
}

/* ---- first use ---- */

/* Nothing to do: it ends the sleep, and whoever wakes looks around. */
static void on_kick(uv_async_t *kick) {
  (void)kick;
}

/* 0, or an errno: whether as many descriptors are to be had as a loop and its
 * thread take. libuv makes a pipe for all its loops with the first one, and
 * ends the process if it cannot; so that is not left to chance. (In a program
 * that runs out of them in several threads at one time it still is.) */
static int find_descriptors(void) {
  int fds[DESCRIPTORS], n = 0, error = 0;
  while (n < DESCRIPTORS && error == 0) {
    fds[n] = eventfd(0, EFD_CLOEXEC);
    if (fds[n] < 0)
      error = errno;
    else
      n++;
  }
  while (n > 0)
    close(fds[--n]);
  return error;
}

/* 0, or an errno: sees to it that none of our descriptors is 0, 1 or 2. A
 * program that was started with these closed would print into our connections
 * and read from them, and libuv ends a process that gives such a one to it to
 * close. All descriptors of a store are opened after this, and those three
 * stay open, so one place is enough. They cannot be what the program expects
 * (reading 0, writing the others), so that such a program gets EBADF as before.
 * Another thread that fills the same gaps, or uses them, is not disturbed. */
static int fill_gaps(void) {
  for (int fd = 0; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) >= 0)
      continue;
    /* Programs that this one starts have them too. */
    int got = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (got < 0)
      return errno;
    if (got > STDERR_FILENO)
      close(got);
  }
  return 0;
}

/* 0, or an errno. */
static int open_uv(struct dlk_loop *l) {
  int error = fill_gaps();
  if (error == 0)
    error = find_descriptors();
  if (error == 0)
    error = -uv_loop_init(&l->uv);
  if (error != 0)
    return error;
  l->uv.data = l;
  error = -uv_async_init(&l->uv, &l->kick, on_kick);
  if (error != 0)
    uv_loop_close(&l->uv);
  else
    uv_timer_init(&l->uv, &l->tick);
  return error;
}

static void close_handles(struct dlk_loop *l) {
  uv_close((uv_handle_t *)&l->kick, NULL);
  uv_close((uv_handle_t *)&l->tick, NULL);
}

bool dlk_loop_open(struct dlk_loop *l, const char *shown,
                   struct dlk_error *err) {
  int error = open_uv(l);
  if (error != 0) {
    char why[DLK_REASON_MAX];
    dlk_error_set(err, DLK_UNAVAILABLE, "no event loop for '%s': %s", shown,
                  dlk_reason(why, error));
    return false;
  }
  if (dlk_thread_start(l, shown, err))
    return true;
  close_handles(l);
  uv_run(&l->uv, UV_RUN_DEFAULT);
  uv_loop_close(&l->uv);
  return false;
}

void dlk_loop_make_resident(struct dlk_loop *l) {
  if (!atomic_exchange(&l->resident, true))
    dlk_owner_look(l);
}

/* ---- the end ---- */

void dlk_loop_set_ended(struct dlk_loop *l) {
  pthread_mutex_lock(&l->lock);
  atomic_store(&l->ended, true);
  pthread_mutex_unlock(&l->lock);
}

/* By the owner; leaves it. */
static void end(struct dlk_loop *l) {
  dlk_inbox_run(&l->inbox);
  close_handles(l);
  for (int i = 0; i < 100 && uv_loop_alive(&l->uv); i++)
    if (uv_run(&l->uv, UV_RUN_NOWAIT) == 0)
      break;
  uv_loop_close(&l->uv);
  dlk_owner_end(l);
}

void dlk_loop_end(struct dlk_loop *l) {
  dlk_loop_set_ended(l);
  dlk_thread_join(l);
  dlk_owner_await(l);
  end(l);
}

void dlk_loop_end_by_thread(struct dlk_loop *l) {
  dlk_loop_set_ended(l);
  dlk_thread_detach(l);
  end(l);
}
