// A fake UCX: only the function that `troupe doctor` calls.

extern "C" const char* ucp_get_version_string() {
  return "1.99.0";
}
