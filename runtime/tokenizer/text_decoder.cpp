#include "runtime/tokenizer/text_decoder.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"
#include "runtime/tokenizer/normalizer.hpp"
#include "runtime/tokenizer/pre_tokenizer.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <type_traits>

namespace troupe::runtime {
namespace {

using decoded_tokens = std::vector<std::string>;

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  if (what.empty())
    return;
  std::string out;
  std::size_t at = 0;
  for (auto found = text.find(what); found != text.npos; found = text.find(what, at)) {
    out.append(text, at, found - at).append(by);
    at = found + what.size();
  }
  text = out.append(text, at);
}

void fuse(decoded_tokens& all) {
  std::string whole;
  for (const auto& one : all)
    whole += one;
  all.assign(1, whole);
}

void done(const byte_level_decoding&, decoded_tokens& all) {
  for (auto& one : all)
    if (auto bytes = to_bytes(one))
      one = std::move(*bytes);
  fuse(all);
}

/// Parses "<0x41>".
std::optional<char> byte_of(const std::string& token) {
  unsigned char byte = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')
      || std::from_chars(token.data() + 3, token.data() + 5, byte, 16).ptr != token.data() + 5)
    return std::nullopt;
  return static_cast<char>(byte);
}

/// Joins adjacent byte tokens.
void done(const byte_fallback_decoding&, decoded_tokens& all) {
  decoded_tokens out;
  bool within_bytes = false;
  for (auto& one : all) {
    const auto byte = byte_of(one);
    if (!byte)
      out.push_back(std::move(one));
    else if (within_bytes)
      out.back() += *byte;
    else
      out.emplace_back(1, *byte);
    within_bytes = byte.has_value();
  }
  all = std::move(out);
}

void done(const space_mark_decoding& step, decoded_tokens& all) {
  for (std::size_t i = 0; i < all.size(); ++i)
    replace_all(all[i], step.mark, i == 0 && step.first_removed ? "" : " ");
}

void done(const word_piece_decoding& step, decoded_tokens& all) {
  static const std::pair<const char*, const char*> tidied[] = {{" .", "."},
                                                               {" ?", "?"},
                                                               {" !", "!"},
                                                               {" ,", ","},
                                                               {" ' ", "'"},
                                                               {" n't", "n't"},
                                                               {" 'm", "'m"},
                                                               {" do not", " don't"},
                                                               {" 's", "'s"},
                                                               {" 've", "'ve"},
                                                               {" 're", "'re"}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto& one = all[i];
    if (i > 0) {
      if (one.starts_with(step.prefix))
        one.erase(0, step.prefix.size());
      else
        one.insert(0, " ");
    }
    if (step.tidy)
      for (const auto& [from, to] : tidied)
        replace_all(one, from, to);
  }
}

void done(const suffix_decoding& step, decoded_tokens& all) {
  for (std::size_t i = 0; i < all.size(); ++i)
    replace_all(all[i], step.suffix, i + 1 == all.size() ? "" : " ");
}

/// `most`: maximum size of all tokens in bytes. It bounds memory, because each replacement step can
/// multiply the text.
void replace_in(const replace_decoding& step, decoded_tokens& all, std::size_t most) {
  const normalizer by({replaced{step.what, step.by}});
  std::size_t total = 0;
  for (auto& one : all) {
    std::string out;
    for (std::string_view left = one;
         !left.empty();) {  // invalid bytes between valid stretches are copied
      const auto valid = valid_utf8_prefix(left);
      out += by.apply(left.substr(0, valid));
      left.remove_prefix(valid);
      out += left.substr(0, 1);
      left.remove_prefix(std::min<std::size_t>(left.size(), 1));
    }
    one = out;
    total += one.size();
    if (total > most)
      throw input_error(
          "decoding {} tokens gives more than {} bytes: the tokenizer's decoder replaces its own "
          "replacements",
          all.size(),
          most);
  }
}

void done(const strip_decoding& step, decoded_tokens& all) {
  const auto size = step.character.size();
  for (auto& one : all) {
    for (std::size_t i = 0; i < step.left && one.starts_with(step.character); ++i)
      one.erase(0, size);
    for (std::size_t i = 0; i < step.right && one.ends_with(step.character); ++i)
      one.resize(one.size() - size);
  }
}

void done(const fuse_decoding&, decoded_tokens& all) {
  fuse(all);
}

void done(const blanks_between&, decoded_tokens& all) {
  for (std::size_t i = 1; i < all.size(); ++i)
    all[i].insert(0, " ");
}

}  // namespace

std::string text_decoder::decode(decoded_tokens all) const {
  std::size_t most = 10000;
  for (const auto& one : all)
    most += 100 * (one.size() + 1);
  for (const auto& one : steps_)
    std::visit(
        [&]<class Step>(const Step& x) {
          if constexpr (std::is_same_v<Step, replace_decoding>)
            replace_in(x, all, most);
          else
            done(x, all);
        },
        one);
  std::string out;
  for (const auto& one : all)
    out += one;
  return out;
}

bool text_decoder::looks_ahead() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const step& x) {
    return std::holds_alternative<suffix_decoding>(x);
  });
}

bool text_decoder::by_token() const {
  return steps_.size() == 1 && std::holds_alternative<byte_level_decoding>(steps_.front());
}

}  // namespace troupe::runtime
