/* Codes of servers and the library. */
#ifndef DLK_STORE_ZOOKEEPER_CLIENT_CODES_H
#define DLK_STORE_ZOOKEEPER_CLIENT_CODES_H

#include "store/zookeeper/client/link.h"

/* Not sent; no code of the library. */
#define DLK_ZK_TOO_LONG (-100000)
#define DLK_ZK_ODD_MAX 48

enum dlk_ss_rc dlk_zk_code_rc(int code);
/* For people; "" for 0. odd: room for an unknown code's. */
const char *dlk_zk_code_text(int code, char odd[DLK_ZK_ODD_MAX]);

#endif
