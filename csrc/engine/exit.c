/* All engines are asked to close at once, and their renewal threads work side
 * by side within one bound. None is joined: the threads go with the process;
 * where that goes on (release_on) each store's close joins. */
#include <pthread.h>
#include <stdlib.h>

#include "core/clock.h"
#include "engine/in_use.h"

#define AT_EXIT (150 * DLK_MS)

void dlk_engines_close(int64_t timeout) {
  struct dlk_engine **list = dlk_in_use_list();
  struct dlk_request r = {.task = DLK_TASK_CLOSE, .timeout = timeout};
  int64_t end = dlk_clock_now() + timeout;
  size_t n = 0;
  while (list && list[n])
    n++;
  struct dlk_ticket **tickets = calloc(n + 1, sizeof *tickets);
  for (size_t i = 0; tickets && i < n; i++)
    tickets[i] = dlk_engine_submit(list[i], &r, true, NULL);
  for (size_t i = 0; tickets && i < n; i++) {
    int64_t left = end - dlk_clock_now();
    if (tickets[i] && left > 0)
      dlk_engine_drive(tickets[i], left);
    if (tickets[i])
      dlk_ticket_unref(tickets[i]);
  }
  for (size_t i = 0; i < n; i++)
    dlk_engine_unref(list[i]);
  free(tickets);
  free(list);
}

static void at_exit(void) {
  dlk_engines_close(AT_EXIT);
}

static void begin(void) {
  dlk_in_use_begin(at_exit);
}

void dlk_engines_close_at_exit(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, begin);
}
