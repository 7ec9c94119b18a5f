// In every test program of a build with sanitizers. A test may ask for more memory than there is,
// to see how that is refused: otherwise a sanitizer ends the program where the system says no.

extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}

extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}
