-- Mutants of csrc/tls, and of what the Redis store does with it.

local CHANNEL = "csrc/tls/channel.c"
local CLIENT = "csrc/tls/client.c"

return {
  specs = "spec/tls/channel_spec.lua spec/redis/tls_refusals_spec.lua"
    .. " spec/redis/tls_network_spec.lua spec/redis/tls_process_spec.lua",
  lua = "lua5.4",
  mutants = {
    { name = "a certificate counts by its common name",
      file = "csrc/tls/channel.c", specs = "spec/redis/tls_refusals_spec.lua",
      find = "X509_CHECK_FLAG_NEVER_CHECK_SUBJECT", put = "0" },
    { name = "any name in a certificate of that CA will do", file = CHANNEL,
      find = "return SSL_set1_host(c->ssl, c->name) == 1;",
      put = "return true;" },
    { name = "a session is used again and again", file = CLIENT,
      find = "k->ticket = none;",
      put = "if (t.session) SSL_SESSION_up_ref(t.session);"
        .. " if (t.chain) k->ticket.chain = X509_chain_up_ref(t.chain);" },
    { name = "a session outlives its CA", file = CLIENT,
      find = "t->chain && i < sk_X509_num(t->chain)",
      put = "t->chain && i < sk_X509_num(t->chain) - 1" },
    { name = "a session stays when its certificates are other ones",
      file = CLIENT,
      find = "if (made) { drop_context(client);",
      put = "if (made) { SSL_CTX_free(client->ctx);" },
  },
}
