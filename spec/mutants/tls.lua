-- Mutants of csrc/tls, and of what the Redis store does with it.

local CHANNEL = "csrc/tls/channel.c"
local CLIENT = "csrc/tls/client.c"
local GATE = "csrc/tls/gate.c"
local REASON = "csrc/tls/reason.c"
local SECURE = "csrc/store/redis/conn/secure.c"
local DOUBT = "csrc/store/redis/conn/doubt.c"
local LIFE = "csrc/store/redis/conn/lifetime.c"
local FILE = "csrc/tls/file.c"
local CONTEXT = "csrc/tls/context.c"
local LOADER = "csrc/store/redis/conn/tls.c"

return {
  specs = "spec/tls/channel_spec.lua spec/redis/tls_refusals_spec.lua"
    .. " spec/redis/tls_network_spec.lua spec/redis/tls_process_spec.lua",
  lua = "lua5.4",
  mutants = {
    { name = "the program's OpenSSL answers our calls", file = LOADER,
      find = "#define DEEPLY RTLD_DEEPBIND", put = "#define DEEPLY 0" },
    { name = "a thread is in OpenSSL while it cleans up at exit", file = GATE,
      find = "atomic_store(&shut, true);", put = "return;" },
    { name = "a forked child has its parent's lock", file = GATE,
      find = "static void in_child(void) { (void)make_lock(); }",
      put = "static void in_child(void) { }" },
    { name = "others' errors are taken for ours",
      file = "csrc/tls/library.c",
      find = "if (ERR_peek_error() != 0)", put = "if (0)" },
    { name = "any name in a certificate of that CA will do", file = CHANNEL,
      find = "return SSL_set1_host(c->ssl, c->name) == 1;",
      put = "return true;" },
    { name = "any address in a certificate of that CA will do",
      file = CHANNEL,
      find = "return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(c->ssl),"
        .. " c->name) == 1;",
      put = "return true;" },
    { name = "what waits to be sent has no bound", file = CHANNEL,
      find = "if (full(c, DLK_TLS_AHEAD)) return DLK_TLS_WANTS_ROOM;",
      put = "" },
    { name = "answers that wait to be sent have no bound", file = CHANNEL,
      find = "if (full(c, DLK_TLS_AHEAD + DLK_TLS_ANSWERS))"
        .. " return DLK_TLS_WANTS_ROOM;",
      put = "" },
    { name = "a session is used again and again", file = CLIENT,
      find = "k->ticket = none;",
      put = "if (t.session) SSL_SESSION_up_ref(t.session);"
        .. " if (t.chain) k->ticket.chain = X509_chain_up_ref(t.chain);" },
    { name = "a session outlives the certificates of its server",
      file = CLIENT,
      find = "if (t.session && !is_in_time(&t))", put = "if (0)" },
    { name = "a session outlives all certificates but the server's own",
      file = CLIENT,
      find = "t->chain && i < sk_X509_num(t->chain)",
      put = "t->chain && i < 1" },
    { name = "a session outlives its CA", file = CLIENT,
      find = "t->chain && i < sk_X509_num(t->chain)",
      put = "t->chain && i < sk_X509_num(t->chain) - 1" },
    { name = "a session is resumed before its certificates are valid",
      file = CLIENT,
      find = "X509_cmp_time(X509_get0_notBefore(x), NULL) < 0 &&",
      put = "" },
    { name = "the session of a session outlives the certificates",
      file = CHANNEL,
      find = "SSL_session_reused(c->ssl) == 1 ? c->rests_on"
        .. " : SSL_get0_verified_chain(c->ssl);"
        .. " bool verify = c->client->settings->verify;"
        .. " if (SSL_get_SSL_CTX(c->ssl) == c->client->ctx &&"
        .. " (chain || !verify))",
      put = "SSL_get0_verified_chain(c->ssl);"
        .. " bool verify = c->client->settings->verify;"
        .. " if (SSL_get_SSL_CTX(c->ssl) == c->client->ctx)" },
    { name = "no session is resumed", file = CHANNEL,
      find = "if (t.session) (void)SSL_set_session(c->ssl, t.session);",
      put = "" },
    { name = "a session of TLS 1.2 is lost when it was resumed",
      file = CHANNEL,
      find = "keep_old_session(c); return DLK_TLS_DONE;",
      put = "return DLK_TLS_DONE;" },
    { name = "certificates are read once", file = CLIENT,
      find = "bool same = client->ctx != NULL;"
        .. " for (int i = 0; i < DLK_TLS_FILES; i++)",
      put = "bool same = client->ctx != NULL;"
        .. " for (int i = 0; i < 0; i++)" },
    { name = "a pair that does not fit yet ends what worked", file = CLIENT,
      find = "client->ctx = made; } return client->ctx;",
      put = "client->ctx = made; } return made || same ? client->ctx : NULL;" },
    { name = "what is encrypted is not sent when there is room",
      file = SECURE,
      find = "return unsent(x) > 0 || x->stuck ||",
      put = "return x->stuck ||" },
    { name = "a read that had to rest is not gone on with", file = SECURE,
      find = "return unsent(x) > 0 || x->stuck ||",
      put = "return unsent(x) > 0 ||" },
    { name = "a write that waits for bytes is not tried again",
      file = SECURE,
      find = "|| (x->write_stuck && x->fresh);", put = "|| false;" },
    { name = "an end that came with an answer is not told", file = CHANNEL,
      find = "|| (SSL_get_shutdown(c->ssl) & SSL_RECEIVED_SHUTDOWN) != 0;",
      put = ";" },
    { name = "a fault that came with an answer is not told", file = CHANNEL,
      find = "return c->failed || c->in_len > 0 ||",
      put = "return c->in_len > 0 ||" },
    { name = "a handshake without an answer is waited for to the end",
      file = "csrc/store/redis/conn/due.c",
      find = "t->sure = t->sure || doubt;",
      put = "t->sure = t->sure || doubt; doubt = false;" },
    { name = "who hangs up at a command is not asked for TLS", file = LIFE,
      find = "if (first && !c->spoken_to &&"
        .. " dlk_redis_sock_doubt(c->sock, text))",
      put = "if (0)" },
    { name = "who spoke TLS once is asked again", file = LIFE,
      find = "c->times.sure = c->spoken_to || !address->tls;",
      put = "c->times.sure = !address->tls;" },
    { name = "any end of the question is an answer", file = DOUBT,
      find = "return n > 0 && (head[0] == '+' || head[0] == '-');",
      put = "return true;" },
    { name = "an end is an answer with TLS", file = DOUBT,
      find = "return n == 2 && (head[0] == 0x15 || head[0] == 0x16) &&"
        .. " head[1] == 0x03;",
      put = "return true;" },
    { name = "a missing certificate of TLS 1.2 is a cipher", file = REASON,
      find = "if (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE &&"
        .. " seen->asked && !seen->shown)",
      put = "if (0)" },
    { name = "a certificate that was written over is not read again",
      file = FILE,
      find = "a->size == b->size && a->changed == b->changed;",
      put = "a->size == b->size;" },
    { name = "min_version is not heeded", file = CONTEXT,
      find = "newest ? TLS1_3_VERSION : TLS1_2_VERSION",
      put = "newest ? TLS1_2_VERSION : TLS1_2_VERSION" },
    { name = "the end of its line is part of a key's password",
      file = CONTEXT, specs = "spec/redis/tls_refusals_spec.lua",
      find = "out->data[line] = '\\0';", put = "" },
    { name = "a piece of a private key stays in memory that was freed",
      file = FILE,
      find = "!dlk_buf_reserve(out, (size_t)st.st_size + 4096)",
      put = "false" },
    { name = "a pipe in place of a certificate is waited for", file = FILE,
      find = "O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY",
      put = "O_RDONLY | O_CLOEXEC | O_NOCTTY" },
    { name = "a session stays when its certificates are other ones",
      file = CLIENT,
      find = "if (made) { drop_context(client);",
      put = "if (made) { SSL_CTX_free(client->ctx);" },
    { name = "a key's password ends at a NUL byte",
      file = "csrc/tls/context.c",
      specs = "spec/redis/tls_refusals_spec.lua",
      find = "if (!why) return true;", put = "return true;" },
  },
}
