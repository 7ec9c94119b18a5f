#include "runtime/core/base64.hpp"

#include "runtime/core/error.hpp"

#include <openssl/evp.h>

namespace troupe::runtime {

std::string from_base64(std::string_view text) {
  std::string out(text.size() / 4 * 3, '\0');
  const bool fits = text.size() % 4 == 0 && text.size() < (1U << 30);
  const auto size = fits ? EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                           reinterpret_cast<const unsigned char*>(text.data()),
                                           int(text.size()))
                         : -1;
  const auto end = text.find('=');  // padding is allowed at the end only
  if (size < 0 || std::size_t(size) != out.size()
      || (end != text.npos && (end + 2 < text.size() || text.back() != '=')))
    throw input_error("'{}' is not valid base64", text.substr(0, 40));
  for (int i = 0; i < 2 && text.ends_with('='); ++i) {  // OpenSSL decodes padding to zero bytes
    text.remove_suffix(1);
    out.pop_back();
  }
  return out;
}

}  // namespace troupe::runtime
