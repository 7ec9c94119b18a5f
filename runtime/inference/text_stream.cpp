#include "runtime/inference/text_stream.hpp"

#include "runtime/tokenizer/pre_tokenizer.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr const char* replacement = "\xEF\xBF\xBD";

/// Whether more bytes could complete these to one valid character.
bool may_grow(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes.front());
  return first >= 0xC2 && first <= 0xF4 && invalid_utf8_prefix(bytes) == bytes.size();
}

}  // namespace

std::string text_stream::push(std::int32_t token) {
  pending_ += with_.piece(token, last_);
  last_ = token;
  return take(false);
}

std::string text_stream::finish() {
  return take(true);
}

std::string text_stream::take(bool all) {
  std::string out;
  while (!pending_.empty()) {
    const auto valid = valid_utf8_prefix(pending_);
    out += pending_.substr(0, valid);
    pending_.erase(0, valid);
    if (pending_.empty() || (!all && may_grow(pending_)))
      break;
    out += replacement;
    pending_.erase(0, invalid_utf8_prefix(pending_));
  }
  return out;
}

stop_words::stop_words(std::vector<std::string> words) : words_(std::move(words)) {
  std::erase(words_, "");
}

std::string stop_words::push(std::string_view piece) {
  if (found_)
    return "";
  pending_ += piece;
  auto first = std::string::npos;
  for (const auto& word : words_)
    first = std::min(first, pending_.find(word));
  if (first != std::string::npos) {
    found_ = true;
    return std::exchange(pending_, {}).substr(0, first);
  }
  std::size_t held = 0;
  for (const auto& word : words_)
    for (auto size = std::min(word.size() - 1, pending_.size()); size > held; --size)
      if (std::string_view(pending_).ends_with(std::string_view(word).substr(0, size)))
        held = size;
  auto out = pending_.substr(0, pending_.size() - held);
  pending_.erase(0, out.size());
  return out;
}

std::string stop_words::finish() {
  return std::exchange(pending_, {});
}

}  // namespace troupe::runtime
