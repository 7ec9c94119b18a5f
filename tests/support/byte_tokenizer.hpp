// A tokenizer with readable tokens, for tests of code that tokenizes.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <functional>
#include <new>
#include <string>
#include <vector>

namespace troupe::tests {

/// Ids: a byte is its own id, 256 ends a document, 257 is `merged`, and the special tokens `named`
/// follow. The text "bad" throws input_error, the text "no memory" throws bad_alloc.
class byte_tokenizer final : public runtime::tokenizer {
 public:
  static constexpr std::int32_t end = 256, pair = 257;
  std::function<void()> before_each;  ///< called before a text is encoded

  explicit byte_tokenizer(std::string merged = {}, std::vector<std::string> named = {})
      : merged_(std::move(merged)), named_(std::move(named)) {}

  void append(std::string_view text,
              std::vector<std::int32_t>& ids,
              runtime::special_tokens specials) const override {
    if (before_each)
      before_each();
    if (text == "no memory")
      throw std::bad_alloc();
    if (text == "bad")
      throw runtime::input_error("the text is bad");
    for (std::size_t i = 0; i < text.size(); ++i)
      if (const auto k = named_at(text.substr(i));
          k < named_.size() && specials == runtime::special_tokens::recognised) {
        ids.push_back(pair + 1 + std::int32_t(k));
        i += named_[k].size() - 1;
      } else if (!merged_.empty() && text.substr(i).starts_with(merged_)) {
        ids.push_back(pair);
        i += merged_.size() - 1;
      } else
        ids.push_back(static_cast<unsigned char>(text[i]));
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string out;
    for (const auto id : ids)
      out += id > pair    ? named_.at(std::size_t(id) - pair - 1)
             : id == pair ? merged_
             : id == end  ? std::string()
                          : std::string(1, char(id));
    return out;
  }

  bool is_special(std::int32_t id) const override { return id == end || id > pair; }
  std::int32_t vocabulary_size() const override { return 258 + std::int32_t(named_.size()); }
  std::int32_t end_of_document() const override { return end; }
  std::string kind() const override { return "bytes"; }
  runtime::digest fingerprint() const override { return {}; }

 private:
  std::size_t named_at(std::string_view text) const {
    std::size_t k = 0;
    while (k < named_.size() && !text.starts_with(named_[k]))
      ++k;
    return k;
  }

  std::string merged_;
  std::vector<std::string> named_;
};

}  // namespace troupe::tests
