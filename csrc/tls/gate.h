/* Who may be inside OpenSSL: any thread, until the process ends, and none while
 * it forks. */
#ifndef DLK_TLS_GATE_H
#define DLK_TLS_GATE_H

#include <stdbool.h>

/* Once, before the first entry; false: it cannot be. */
bool dlk_tls_gate_open(void);
/* False: the process ends, OpenSSL may be gone. Else leave follows soon: no
 * waiting in between. */
bool dlk_tls_enter(void);
void dlk_tls_leave(void);

#endif
