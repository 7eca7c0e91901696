/* Any thread may be inside OpenSSL until the process ends, and none while it
 * forks. */
#ifndef DLK_TLS_GATE_H
#define DLK_TLS_GATE_H

#include <stdbool.h>

/* Once, before the first entry; false: it cannot be. */
bool dlk_tls_gate_open(void);
/* False: the process ends, and OpenSSL may be gone. The caller leaves without
 * waiting. The thread's error queue is empty: others may have used it. */
bool dlk_tls_enter(void);
void dlk_tls_leave(void);

#endif
