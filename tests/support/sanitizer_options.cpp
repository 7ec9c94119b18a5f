// Linked into each test program of a sanitizer build. Some tests request more memory than there is;
// the default options would end the program instead of letting the allocation fail.

extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}

extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}
