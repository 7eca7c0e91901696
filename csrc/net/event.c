/* Puts the URL, or what stands for it, before the text of an event. */
#include "net/event.h"

#include <stdio.h>

void dlk_net_tell(struct dlk_host *host, const char *kind, const char *who,
                  const char *fmt, va_list ap) {
  char text[300 + sizeof ": " + 700];
  int n = snprintf(text, sizeof text, "%.300s: ", who);
  vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
  host->event(host, kind, text);
}

void dlk_net_event(struct dlk_host *host, const struct dlk_conf *conf,
                   const char *kind, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  dlk_net_tell(host, kind, conf->shown, fmt, ap);
  va_end(ap);
}
