/* The floor under `make bench` on Consul, as a worker of bench/crowd.lua: the
 * least requests on one connection, over libcurl.
 *
 *   floor_consul HOST:PORT pairs
 *       a transaction that locks a key for a session and lists its folder, then
 *       one that deletes the key */
#include "floor.h"
#include <curl/curl.h>
#include <string.h>

static CURL *curl;
static char said[4096];
static size_t said_len;

static void fail(const char *what) {
  fprintf(stderr, "floor_consul: %s\n", what);
  exit(1);
}

static size_t on_data(char *data, size_t size, size_t n, void *arg) {
  size_t room = sizeof said - 1 - said_len, take = n < room ? n : room;
  (void)size, (void)arg;
  memcpy(said + said_len, data, take);
  said_len += take;
  said[said_len] = '\0';
  return n;
}

static void ask(const char *address, const char *path, const char *body) {
  char url[256];
  long status = 0;
  snprintf(url, sizeof url, "http://%s%s", address, path);
  said_len = 0;
  curl_easy_setopt(curl, CURLOPT_URL, url);
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "PUT");
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
  if (curl_easy_perform(curl) != CURLE_OK ||
      curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK ||
      status != 200)
    fail(said_len ? said : "no answer");
}

static void pairs(const char *address) {
  /* The value has what dlock's has: owner, units, cap, ttl. */
  static const char value[] =
      "b3duZXI9Zmxvb3IvMQp1bml0cz0wCmNhcD0wCnR0bD0zMDAwMAo=";
  char session[64], key[128], take[1024], leave[512];
  ask(address, "/v1/session/create",
      "{\"TTL\":\"60s\",\"LockDelay\":\"0s\",\"Checks\":[],"
      "\"NodeChecks\":[]}");
  const char *id = strstr(said, "\"ID\"");
  if (!id || sscanf(id + 4, "%*[: \"]%36[0-9a-f-]", session) != 1)
    fail("no session");
  snprintf(key, sizeof key, "dlock/floor-%s/x-%s", session, session);
  snprintf(take, sizeof take,
           "[{\"KV\":{\"Verb\":\"lock\",\"Key\":\"%s\",\"Value\":\"%s\","
           "\"Session\":\"%s\"}},"
           "{\"KV\":{\"Verb\":\"get-tree\",\"Key\":\"dlock/floor-%s/\"}}]",
           key, value, session, session);
  snprintf(leave, sizeof leave,
           "[{\"KV\":{\"Verb\":\"delete\",\"Key\":\"%s\"}}]", key);
  long long stop = floor_go();
  do {
    ask(address, "/v1/txn", take);
    ask(address, "/v1/txn", leave);
    floor_pairs++;
  } while (floor_now() < stop);
}

int main(int argc, char **argv) {
  if (argc != 3 || strcmp(argv[2], "pairs") != 0) {
    fprintf(stderr, "usage: floor_consul HOST:PORT pairs\n");
    return 64;
  }
  curl = curl_easy_init();
  if (!curl)
    fail("no libcurl");
  struct curl_slist *headers = curl_slist_append(NULL, "Expect:");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  pairs(argv[1]);
  floor_done();
  return 0;
}
