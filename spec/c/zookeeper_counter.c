/* A counter of sequence numbers that is at its end, on a link that does as it
 * is told. spec/zookeeper/units_spec.lua
 * compiles and runs it. */
#include "check.h"
#include "zookeeper_user.h"

/* A server gives the same number again and again there, which is no order. */
TEST(a_counter_at_its_end_begins_anew) {
  start();
  struct dlk_lease *one = candidate("k", 0), *two = candidate("k", 0);
  fake_first = INT32_MAX - 100;
  struct dlk_op *first = submit(DLK_OP_ACQUIRE, one, NULL);
  struct dlk_op *second = submit(DLK_OP_ACQUIRE, two, NULL);
  fake_serve();
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(!host_over(first) && !host_over(second));
  CHECK(fake_nodes(LOCK) == 0);
  fake_first = 0;
  for (int i = 0; i < 100 && !host_over(first) && !host_over(second); i++) {
    host_run(h, 10 * DLK_MS);
    fake_serve();
  }
  CHECK(host_over(first) != host_over(second));
  bool in_order = host_over(first);
  CHECK(ended(in_order ? first : second, DLK_OK));
  release(in_order ? one : two);
  gets_it(in_order ? second : first, in_order ? two : one);
  host_close(h);
}

int main(void) {
  return check_all();
}
