#include "runtime/object/curl_library.hpp"

#include "runtime/core/error.hpp"

#include <dlfcn.h>

namespace troupe::runtime {
namespace {

constexpr const char* library_name = "libcurl.so.4";

template <class Function>
void find(void* library, const char* name, Function*& to) {
  to = reinterpret_cast<Function*>(::dlsym(library, name));
  if (to == nullptr)
    throw io_error(
        "cannot use {}: it has no function {}; install libcurl 7.88 or later", library_name, name);
}

/// The library stays loaded: it keeps state for the whole process.
curl_functions load() {
  void* const library = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw io_error(
        "cannot load libcurl, which sends HTTP requests: {}; install the package libcurl4",
        ::dlerror());
  curl_functions out = {};
  find(library, "curl_easy_init", out.init);
  find(library, "curl_easy_cleanup", out.cleanup);
  find(library, "curl_easy_reset", out.reset);
  find(library, "curl_easy_setopt", out.set);
  find(library, "curl_easy_getinfo", out.info);
  find(library, "curl_easy_perform", out.perform);
  find(library, "curl_easy_strerror", out.text_of);
  find(library, "curl_slist_append", out.append);
  find(library, "curl_slist_free_all", out.free_all);
  decltype(&::curl_global_init) start = nullptr;
  find(library, "curl_global_init", start);
  if (const auto code = start(CURL_GLOBAL_DEFAULT); code != CURLE_OK)
    throw io_error("cannot start {}: {}", library_name, out.text_of(code));
  return out;
}

}  // namespace

const curl_functions& curl() {
  static const curl_functions functions = load();
  return functions;
}

void require_curl(CURLcode code, const char* doing) {
  if (code != CURLE_OK)
    throw io_error("{}: libcurl refuses an option: {}; install libcurl 7.88 or later",
                   doing,
                   curl().text_of(code));
}

curl_headers::~curl_headers() {
  if (first_ != nullptr)
    curl().free_all(first_);
}

void curl_headers::add(const std::string& line) {
  auto* const longer = curl().append(first_, line.c_str());
  if (longer == nullptr)
    throw io_error("{}: libcurl has no memory for a header", doing_);
  first_ = longer;
}

}  // namespace troupe::runtime
