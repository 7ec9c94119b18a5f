#include "runtime/serving/choice_text.hpp"

#include "runtime/tokenizer/pre_tokenizer.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::runtime::serving {

choice_text::choice_text(const tokenizer& with,
                         const std::vector<std::string>& stop,
                         std::vector<std::int32_t> ends)
    : with_(with), characters_(with), words_(stop), ends_(std::move(ends)) {}

std::string choice_text::push(const token_choice& x) {
  ++tokens_;
  sum_ += double(x.log_probability);
  if (words_.found() || std::ranges::find(ends_, x.token) != ends_.end())
    return "";
  choices_.push_back(x);
  return with_.is_special(x.token) ? "" : words_.push(characters_.push(x.token));
}

std::string choice_text::finish() {
  auto out = words_.push(characters_.finish());
  return out += words_.finish();
}

std::vector<token_choice> choice_text::take_choices() {
  return std::exchange(choices_, {});
}

std::string token_text(const tokenizer& with, std::int32_t token) {
  auto out = with.decode({&token, 1});
  if (valid_utf8_prefix(out) == out.size())
    return out;
  std::string bytes = "bytes:";
  for (const unsigned char one : out)
    bytes += fmt::format("\\x{:02x}", one);
  return bytes;
}

}  // namespace troupe::runtime::serving
