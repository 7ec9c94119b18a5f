// libcurl, loaded at its first use: loading it with its libraries takes 5 ms, which each command
// would pay.

#pragma once

#include <curl/curl.h>
#include <string>

namespace troupe::runtime {

/// Functions of libcurl.
struct curl_functions {
  decltype(&::curl_easy_init) init;
  decltype(&::curl_easy_cleanup) cleanup;
  decltype(&::curl_easy_reset) reset;
  decltype(&::curl_easy_setopt) set;
  decltype(&::curl_easy_getinfo) info;
  decltype(&::curl_easy_perform) perform;
  decltype(&::curl_easy_strerror) text_of;
  decltype(&::curl_slist_append) append;
  decltype(&::curl_slist_free_all) free_all;
};

/// Loads and starts the library at the first call. Any thread. Throws io_error if that is
/// impossible.
const curl_functions& curl();

/// Throws io_error unless the code is CURLE_OK. `doing`: "cannot read objects".
void require_curl(CURLcode code, const char* doing);

/// Header lines of a request. Throws io_error if there is no memory.
class curl_headers {
 public:
  explicit curl_headers(const char* doing) : doing_(doing) {}
  curl_headers(const curl_headers&) = delete;
  curl_headers& operator=(const curl_headers&) = delete;
  ~curl_headers();

  void add(const std::string& line);
  curl_slist* first() const { return first_; }

 private:
  const char* doing_;
  curl_slist* first_ = nullptr;
};

}  // namespace troupe::runtime
