#include "runtime/tokenizer/null_tokenizer.hpp"

#include "runtime/core/error.hpp"

#include <charconv>

namespace troupe::runtime {
namespace {

constexpr std::string_view white_space = " \t\n\v\f\r";

}  // namespace

null_tokenizer::null_tokenizer(std::int32_t vocabulary_size) : size_(vocabulary_size) {
  if (vocabulary_size < 1)
    throw input_error(
        "cannot make a NullTokenizer of {} tokens: give a vocabulary size of 1 or more",
        vocabulary_size);
}

void null_tokenizer::append(std::string_view text,
                            std::vector<std::int32_t>& ids,
                            special_tokens) const {
  for (auto at = text.find_first_not_of(white_space); at != text.npos;
       at = text.find_first_not_of(white_space, at)) {
    const auto end = std::min(text.find_first_of(white_space, at), text.size());
    const auto word = text.substr(at, end - at);
    std::int32_t id = 0;
    const auto [stopped, failure] = std::from_chars(word.begin(), word.end(), id);
    if (failure == std::errc::invalid_argument || stopped != word.end())
      throw input_error(
          "cannot encode '{}' at byte {}: a NullTokenizer reads decimal ids between white space",
          word.substr(0, 40),
          at);
    if (failure != std::errc() || id < 0 || id >= size_)
      throw input_error(
          "cannot encode id {} at byte {}: the vocabulary ends at {}; raise the vocabulary size or "
          "correct the text",
          word.substr(0, 40),
          at,
          size_ - 1);
    ids.push_back(id);
    at = end;
  }
}

std::string null_tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const auto id : ids) {
    if (id < 0 || id >= size_)
      throw input_error("cannot decode id {}: the vocabulary ends at {}", id, size_ - 1);
    if (!text.empty())
      text += ' ';
    text += std::to_string(id);
  }
  return text;
}

digest null_tokenizer::fingerprint() const {
  return digester().add(fmt::format("{} {}", type_name, size_)).result();
}

}  // namespace troupe::runtime
