/* The numbers that servers and the client library answer with. */
#ifndef DLK_STORE_ZOOKEEPER_CLIENT_CODES_H
#define DLK_STORE_ZOOKEEPER_CLIENT_CODES_H

#include "store/zookeeper/client/link.h"

/* Not sent; none of the library's numbers. */
#define DLK_ZK_TOO_LONG (-100000)
#define DLK_ZK_ODD_MAX 48

enum dlk_ss_rc dlk_zk_code_rc(int code);
/* For people: what it means, its name and its number; "" for none. odd: room
 * for a number that is not known here. */
const char *dlk_zk_code_text(int code, char odd[DLK_ZK_ODD_MAX]);

#endif
