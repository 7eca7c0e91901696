/* The counting of Redlock: units, and its properties on a model of nodes that
 * take tokens, lose them at any moment, and lose their data. */
#include "check.h"

#include <string.h>

#include "core/clock.h"
#include "store/redlock/count.h"

#define MOST 9
#define LEN(a) (sizeof(a) / sizeof *(a))

TEST(a_quorum_is_more_than_half) {
  static const unsigned of[] = {3, 2, 4, 3, 5, 3, 7, 4, 9, 5};
  for (size_t i = 0; i < LEN(of); i += 2)
    CHECK(dlk_redlock_quorum(of[i]) == of[i + 1]);
}

TEST(a_round_is_won_lost_or_open) {
  CHECK(dlk_redlock_judge(3, 3, 0) == DLK_REDLOCK_WON);
  CHECK(dlk_redlock_judge(3, 2, 1) == DLK_REDLOCK_OPEN);
  CHECK(dlk_redlock_judge(3, 2, 0) == DLK_REDLOCK_LOST);
}

TEST(a_deadline_is_the_qth_end) {
  static const int64_t ends[] = {50, 10, 40, 20, 30};
  CHECK(dlk_redlock_deadline(3, ends, 5) == 30);
  CHECK(dlk_redlock_deadline(3, ends, 3) == 10);
  CHECK(dlk_redlock_deadline(3, ends, 2) == INT64_MIN);
  static const int64_t same[] = {7, 7, 7};
  CHECK(dlk_redlock_deadline(2, same, 3) == 7);
}

TEST(a_fence_is_agreed_or_the_largest) {
  bool agreed;
  static const int64_t level[] = {9, 8, 9, 9}, apart[] = {5, 9, 7};
  CHECK(dlk_redlock_fence(3, level, 4, 100, &agreed) == 9 && agreed);
  CHECK(dlk_redlock_fence(3, apart, 3, 100, &agreed) == 9 && !agreed);
  static const int64_t few[] = {5, 0, 0}, none[] = {0, 0, 0};
  CHECK(dlk_redlock_fence(3, few, 3, 100, &agreed) == 100 && !agreed);
  CHECK(dlk_redlock_fence(3, few, 3, 4, &agreed) == 5 && !agreed);
  CHECK(dlk_redlock_fence(3, none, 3, 100, &agreed) == 100 && !agreed);
}

TEST(pauses_double_and_end) {
  CHECK(dlk_redlock_pause(40 * DLK_MS, 0, true) == 2 * DLK_MS);
  CHECK(dlk_redlock_pause(DLK_US, 1, false) == 2 * DLK_MS);
  CHECK(dlk_redlock_pause(10 * DLK_MS, 1, false) == 20 * DLK_MS);
  CHECK(dlk_redlock_pause(10 * DLK_MS, 3, false) == 80 * DLK_MS);
  CHECK(dlk_redlock_pause(10 * DLK_MS, 3, true) == 160 * DLK_MS);
  CHECK(dlk_redlock_pause(10 * DLK_MS, 1000, false) == 250 * DLK_MS);
}

/* At each moment before the deadline q of the ends are still to come, and not
 * one moment later. */
TEST(until_the_deadline_q_votes_stand) {
  for (int round = 0; round < 100000; round++) {
    unsigned n = 3 + check_random(7), q = dlk_redlock_quorum(n);
    unsigned count = check_random(n + 1);
    int64_t ends[MOST];
    for (unsigned i = 0; i < count; i++)
      ends[i] = (int64_t)check_random(20);
    int64_t at = dlk_redlock_deadline(q, ends, count);
    for (int64_t t = 0; t <= 20; t++) {
      unsigned stand = 0;
      for (unsigned i = 0; i < count; i++)
        stand += ends[i] >= t;
      CHECK((t <= at) == (stand >= q));
    }
  }
}

/* ---- the model ---- */

/* A node's key, and its counter, 0: missing. */
struct node {
  unsigned token;
  int64_t counter;
};

/* A client's acquisition; its requests are done one by one, in any order. */
struct client {
  unsigned token[MOST];
  int64_t value[MOST];
  bool voted[MOST], raised[MOST], asked[MOST];
  int64_t fence, after; /* after: the largest fence when it began */
  enum { IDLE, VOTING, RAISING, HELD } phase;
  bool by_clock; /* fewer than q votes had a value */
};

static struct node nodes[MOST];
static struct client clients[4];
static unsigned n, q, tokens;
static int64_t largest, now, given[4096];
static unsigned holds;
/* fell: a clock was behind, of which nothing is promised. losing: then two
 * acquisitions at one time may get the same fence. bad: a promise was broken.
 */
static bool fell, losing, bad;

/* What the rules of count.h are against, put back. */
static enum fault {
  NONE,
  LARGEST,   /* the largest of q values is the fence */
  UNCHECKED, /* a counter is raised without our token */
  SEEDED     /* a missing counter begins at its node's clock */
} fault;

static unsigned tokens_of(const struct client *c) {
  unsigned have = 0;
  for (unsigned i = 0; i < n; i++)
    have += c->voted[i] && nodes[i].token == c->token[i];
  return have;
}

/* The tokens of a client that crashes stand until they end. */
static void finish(struct client *c) {
  bool crashes = check_random(10) == 0;
  for (unsigned i = 0; i < n && !crashes; i++)
    if (c->voted[i] && nodes[i].token == c->token[i])
      nodes[i].token = 0;
  memset(c, 0, sizeof *c);
}

static void hold(struct client *c) {
  fell = fell || (c->by_clock && c->fence <= c->after);
  bad = bad || (!fell && c->fence <= c->after);
  for (unsigned i = 0; i < holds; i++)
    bad = bad || (!losing && given[i] == c->fence);
  if (holds < LEN(given))
    given[holds++] = c->fence;
  if (c->fence > largest)
    largest = c->fence;
  c->phase = HELD;
}

static void vote(struct client *c, unsigned i) {
  struct node *node = &nodes[i];
  c->asked[i] = true;
  if (node->token)
    return;
  node->token = c->token[i] = ++tokens;
  if (fault == SEEDED && node->counter == 0)
    node->counter = now + (int64_t)check_random(100000); /* a wrong clock */
  if (node->counter > 0)
    node->counter++;
  c->value[i] = node->counter;
  c->voted[i] = true;
}

static void number(struct client *c) {
  int64_t values[MOST];
  unsigned count = 0, known = 0;
  bool agreed;
  for (unsigned i = 0; i < n; i++) {
    known += c->voted[i] && c->value[i] > 0;
    if (c->voted[i])
      values[count++] = c->value[i];
  }
  c->by_clock = known < q;
  c->fence = dlk_redlock_fence(q, values, count,
                               now + (int64_t)check_random(3000), &agreed);
  c->phase = RAISING;
  for (unsigned i = 0; i < n; i++)
    c->raised[i] = c->voted[i] && (c->value[i] == c->fence || fault == LARGEST);
}

static void raise(struct client *c, unsigned i) {
  bool ours = nodes[i].token == c->token[i] || fault == UNCHECKED;
  if (!c->voted[i] || !ours || c->value[i] > c->fence)
    return;
  if (nodes[i].counter < c->fence)
    nodes[i].counter = c->fence;
  c->raised[i] = true;
}

static void step(struct client *c) {
  unsigned i = check_random(n), yes = 0, ready = 0, open = 0;
  switch (c->phase) {
  case IDLE:
    c->after = largest;
    c->phase = VOTING;
    return;
  case VOTING:
    if (!c->asked[i])
      vote(c, i);
    for (i = 0; i < n; i++) {
      yes += c->voted[i];
      open += !c->asked[i];
    }
    if (dlk_redlock_judge(q, yes, open) == DLK_REDLOCK_WON)
      number(c);
    else if (dlk_redlock_judge(q, yes, open) == DLK_REDLOCK_LOST)
      finish(c);
    return;
  case RAISING:
    if (!c->asked[i]) /* a late vote */
      vote(c, i);
    raise(c, i);
    for (i = 0; i < n; i++)
      ready += c->raised[i];
    if (ready >= q)
      hold(c);
    else if (check_random(40) == 0)
      finish(c);
    return;
  case HELD:
    raise(c, i);
    if (check_random(8) == 0)
      finish(c);
  }
}

/* Tokens go at any moment, or (losses) nodes lose their counters, one after
 * another; the clients' clocks differ by three of these moments. True: no
 * promise was broken. */
static bool play(bool losses) {
  memset(nodes, 0, sizeof nodes);
  memset(clients, 0, sizeof clients);
  n = 3 + 2 * check_random(2);
  q = dlk_redlock_quorum(n);
  tokens = holds = 0;
  fell = bad = false;
  losing = losses;
  largest = 0;
  now = 10000;
  for (unsigned i = 0; i < n; i++)
    nodes[i].counter = 1 + (int64_t)check_random(10000);
  for (int moment = 0; moment < 300; moment++, now += 1000) {
    step(&clients[check_random(4)]);
    if (check_random(losses ? 100 : 10) == 0) /* it ended, or was cut */
      nodes[check_random(n)].token = 0;
    if (losses && check_random(40) == 0)
      nodes[check_random(n)].counter = 0;
  }
  for (size_t i = 0; i < LEN(clients); i++)
    finish(&clients[i]);
  return !bad;
}

TEST(fences_rise_whenever_tokens_go) {
  for (int i = 0; i < 100000; i++)
    CHECK(play(false));
}

TEST(fences_rise_though_data_is_lost) {
  for (int i = 0; i < 100000; i++)
    CHECK(play(true));
}

static unsigned bad_of(enum fault put_back, bool losses) {
  unsigned found = 0;
  fault = put_back;
  for (int i = 0; i < 20000; i++)
    found += !play(losses);
  fault = NONE;
  return found;
}

TEST(each_fault_put_back_breaks_a_promise) {
  CHECK(bad_of(LARGEST, false) > 0);
  CHECK(bad_of(UNCHECKED, false) > 0);
  CHECK(bad_of(SEEDED, true) > 0);
}

/* Of two clients with q tokens each there is never a moment. */
TEST(two_never_have_q) {
  for (int i = 0; i < 2000; i++) {
    play(false);
    for (int moment = 0; moment < 200; moment++) {
      unsigned with_q = 0;
      step(&clients[check_random(4)]);
      for (size_t c = 0; c < LEN(clients); c++)
        with_q += tokens_of(&clients[c]) >= q;
      CHECK(with_q <= 1);
    }
  }
}

int main(void) {
  return check_all();
}
