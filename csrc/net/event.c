/* Puts the URL before the text of an event. */
#include "net/event.h"

#include <stdarg.h>
#include <stdio.h>

void dlk_net_event(struct dlk_host *host, const struct dlk_conf *conf,
                   const char *kind, const char *fmt, ...) {
  char text[200 + sizeof ": " + 700];
  int n = snprintf(text, sizeof text, "%.200s: ", conf->shown);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
  va_end(ap);
  host->event(host, kind, text);
}
