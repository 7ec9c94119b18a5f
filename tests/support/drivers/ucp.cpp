// A UCX that is not there: what `troupe doctor` asks, and nothing else.

extern "C" const char* ucp_get_version_string() {
  return "1.99.0";
}
