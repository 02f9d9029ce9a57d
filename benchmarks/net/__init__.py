"""The network side: a model server to relay to, a load generator, and the plainest proxies as floors."""
