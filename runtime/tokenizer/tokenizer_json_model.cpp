#include "runtime/core/shortened.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"
#include "runtime/tokenizer/tokenizer_json_parts.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <unordered_set>
#include <utility>

namespace troupe::runtime {
namespace {

/// Limits unused ids, because each takes memory.
constexpr std::size_t most_missing_ids = 1 << 16;
/// Limits the work per position of a text; in bytes.
constexpr std::size_t longest_added_token = 4096;
constexpr std::size_t longest_piece = 1024;

/// Reads an id and checks its range for a given number of tokens.
std::int32_t id_of(const json_part& from, std::size_t tokens) {
  if (!from.value.is_number_unsigned()
      || from.value.get<std::uint64_t>() >= tokens + most_missing_ids)
    from.refuse(fmt::format("the id {} is not a whole number from 0 to {}, for {} tokens",
                            from.shown(),
                            tokens + most_missing_ids - 1,
                            tokens));
  return from.value.get<std::int32_t>();
}

void put(std::vector<std::string>& tokens, std::int32_t id, const std::string& token) {
  if (std::size_t(id) >= tokens.size())
    tokens.resize(std::size_t(id) + 1);
  tokens[std::size_t(id)] = token;
}

void read_tokens(const json_part& vocab, tokenizer_parts& to) {
  if (!vocab.value.is_object())
    vocab.refuse("it is not an object of token: id");
  auto& tokens = to.vocabulary.tokens;
  std::unordered_set<std::int32_t> taken;
  for (const auto& [token, value] : vocab.value.items()) {
    const auto id
        = id_of({value, fmt::format("{}, the token \"{}\"", vocab.where, token.substr(0, 80))},
                vocab.value.size());
    if (!taken.insert(id).second)
      vocab.refuse(fmt::format("tokens \"{}\" and \"{}\" have the same id {}",
                               tokens[std::size_t(id)].substr(0, 80),
                               token.substr(0, 80),
                               id));
    put(tokens, id, token);
    to.own.add(token, id);
  }
}

/// Reads a merge: "left right", or since 2024 ["left", "right"].
std::pair<std::string, std::string> pair_of(const json_part& merge) {
  if (merge.value.is_array() && merge.value.size() == 2) {
    const auto both = merge.elements();
    return {both[0].text(), both[1].text()};
  }
  const auto text = merge.text();
  const auto space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos)
    merge.refuse(
        fmt::format("\"{}\" is not two tokens with one space between", text.substr(0, 80)));
  return {text.substr(0, space), text.substr(space + 1)};
}

/// If a pair is listed twice, the last place counts.
void read_merges(const json_part& merges, const std::string& prefix, tokenizer_parts& to) {
  std::vector<std::optional<bpe_merge>> all;
  std::unordered_map<std::uint64_t, std::size_t> last;  // by pair: index of its last merge
  for (const auto& merge : merges.elements()) {
    if (merge.value.is_string() && all.empty() && merge.text().starts_with("#version"))
      continue;
    const auto [left, right] = pair_of(merge);
    const auto id = [&](const std::string& token) {
      const auto found = to.own.find(token);
      if (!found)
        merge.refuse(fmt::format("the vocabulary has no token \"{}\"", token.substr(0, 80)));
      return *found;
    };
    const bpe_merge one{
        id(left), id(right), id(left + right.substr(std::min(prefix.size(), right.size())))};
    const auto pair = std::uint64_t(one.left) << 32 | std::uint32_t(one.right);
    if (const auto [before, fresh] = last.emplace(pair, all.size()); !fresh) {
      all[before->second].reset();
      before->second = all.size();
    }
    all.push_back(one);
  }
  for (const auto& one : all)
    if (one)
      to.vocabulary.merges.push_back(*one);
}

std::optional<std::int32_t> unknown_of(const json_part& model, const tokenizer_parts& to) {
  const auto name = model.maybe("unk_token");
  if (!name)
    return std::nullopt;
  const auto id = to.own.find(name->text());
  if (!id)
    name->refuse(fmt::format("the vocabulary has no token \"{}\"", name->text().substr(0, 80)));
  return id;
}

bool has_all_bytes(tokenizer_parts& to) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto found = to.own.find(character_of(std::uint8_t(byte)));
    if (!found)
      return false;
    to.vocabulary.byte_ids[byte] = *found;
  }
  return true;
}

void read_bpe(const json_part& model, bool on_bytes, tokenizer_parts& to) {
  if (const auto* const dropout = model.find("dropout"); dropout && *dropout != 0)
    model.refuse("\"dropout\" makes texts random; set it to null");
  read_tokens(model.at("vocab"), to);
  piece_bpe_settings settings{.fuse_unknown = model.flag("fuse_unk", false),
                              .byte_fallback = model.flag("byte_fallback", false),
                              .prefix = model.text("continuing_subword_prefix", ""),
                              .suffix = model.text("end_of_word_suffix", ""),
                              .whole_words = model.flag("ignore_merges", false)};
  read_merges(model.at("merges"), settings.prefix, to);
  if (on_bytes && settings.prefix.empty() && settings.suffix.empty() && has_all_bytes(to)) {
    byte_bpe_parts bytes;
    if (settings.whole_words)
      for (const auto& [token, id] : to.own)
        if (to_bytes(token))
          bytes.whole_words.push_back(id);
    std::sort(bytes.whole_words.begin(), bytes.whole_words.end());
    to.model = std::move(bytes);
    return;
  }
  settings.unknown = unknown_of(model, to);
  to.model = std::move(settings);
}

/// Returns the double nearest to 10^exponent.
double power_of_ten(int exponent) {
  const auto text = fmt::format("1e{}", exponent);
  double out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

/// Rounds a score as the library does. It divides the digits by a power of ten, which may miss the
/// nearest double by one step. That step decides between equally good segmentations.
double as_read_by_the_library(double score) {
  if (!std::isfinite(score))
    return score;
  char text[32];
  const auto end
      = std::to_chars(text, std::end(text), std::abs(score), std::chars_format::scientific).ptr;
  std::uint64_t digits = 0;
  int exponent = 0;
  bool fraction = false;
  const char* at = text;
  for (; at != end && *at != 'e'; ++at) {
    fraction = fraction || *at == '.';
    if (*at != '.') {
      digits = 10 * digits + std::uint64_t(*at - '0');
      exponent -= int(fraction);
    }
  }
  int shift = 0;
  at += at == end ? 0 : at[1] == '+' ? 2 : 1;
  std::from_chars(at, end, shift);
  exponent += shift;
  double out = double(digits);
  for (; exponent < -308 && out != 0; exponent += 308)
    out /= 1e308;
  const auto power = power_of_ten(std::abs(exponent));
  out = exponent < 0 ? out / power : out * power;
  return score < 0 ? -out : out;
}

void require_short(const std::string& piece, const json_part& vocab) {
  if (piece.size() > longest_piece)
    vocab.refuse(fmt::format("the piece \"{}\" has {} bytes, more than {}",
                             shortened(piece, 80),
                             piece.size(),
                             longest_piece));
}

void read_unigram(const json_part& model, tokenizer_parts& to) {
  unigram_settings settings{.byte_fallback = model.flag("byte_fallback", false)};
  const auto vocab = model.at("vocab");
  std::vector<std::string> pieces;
  for (const auto& one : vocab.elements()) {
    const auto pair = one.elements();
    if (pair.size() != 2)
      one.refuse("it is not a piece and its score");
    pieces.push_back(pair[0].text());
    require_short(pieces.back(), vocab);
    settings.scores.push_back(as_read_by_the_library(pair[1].number()));
  }
  if (pieces.empty())
    vocab.refuse("it has no pieces");
  for (auto id = pieces.size(); id-- > 0;)  // of equal pieces the last one counts
    to.own.add(pieces[id], std::int32_t(id));
  if (const auto unknown = model.maybe("unk_id"))
    settings.unknown = std::int32_t(unknown->whole(pieces.size() - 1));
  to.vocabulary.tokens = std::move(pieces);
  to.model = std::move(settings);
}

void read_word_piece(const json_part& model, tokenizer_parts& to) {
  const auto vocab = model.at("vocab");
  read_tokens(vocab, to);
  for (const auto& [token, id] : to.own)
    require_short(token, vocab);
  to.model = word_piece_settings{
      .unknown = unknown_of(model, to),
      .prefix = model.at("continuing_subword_prefix").text(),
      .longest_word = std::size_t(model.at("max_input_chars_per_word").whole(1 << 20))};
}

/// Counts tokens as the library does: in a unigram model, duplicates count.
std::size_t own_tokens(const tokenizer_parts& x) {
  const auto* const pieces = std::get_if<unigram_settings>(&x.model);
  return pieces ? pieces->scores.size() : x.own.size();
}

}  // namespace

void read_model(const json_part& model, bool on_bytes, tokenizer_parts& to) {
  const auto type = model.text("type", "BPE");  // files before 2020 have no type
  if (type == "BPE")
    return read_bpe(model, on_bytes, to);
  if (type == "Unigram")
    return read_unigram(model, to);
  if (type == "WordPiece")
    return read_word_piece(model, to);
  if (type != "WordLevel")
    model.refuse(fmt::format(
        "the model '{}' is not supported; BPE, Unigram, WordPiece and WordLevel are", type));
  read_tokens(model.at("vocab"), to);
  to.model = word_level_parts{unknown_of(model, to)};
}

/// The library ignores the ids in the file: it uses the id of the vocabulary or else the next free
/// one. A file with other ids is rejected, because programs would read it differently.
void read_added(const std::vector<json_part>& from, tokenizer_parts& to) {
  auto& tokens = to.vocabulary.tokens;
  const auto vocabulary = own_tokens(to);
  std::unordered_set<std::string> seen;
  auto next = std::int32_t(vocabulary);
  for (const auto& one : from) {
    const added_token token{.id = id_of(one.at("id"), vocabulary + from.size()),
                            .content = one.at("content").text(),
                            .single_word = one.flag("single_word", false),
                            .lstrip = one.flag("lstrip", false),
                            .rstrip = one.flag("rstrip", false),
                            .normalized = one.flag("normalized", !one.flag("special", false)),
                            .special = one.flag("special", false)};
    if (token.content.empty() || token.content.size() > longest_added_token)
      one.refuse(token.content.empty()
                     ? "its content is empty"
                     : fmt::format("its content has more than {} bytes", longest_added_token));
    const auto shown = token.content.substr(0, 80);
    if (!seen.insert(token.content).second)
      one.refuse(fmt::format("\"{}\" occurs twice", shown));
    const auto found = to.own.find(token.content);
    const auto expected = found.value_or(next);
    if (token.id != expected)
      one.refuse(
          fmt::format("the id of \"{}\" is {}, but Hugging Face's tokenizers would give it {}",
                      shown,
                      token.id,
                      expected));
    if (!found && std::size_t(token.id) < tokens.size() && !tokens[std::size_t(token.id)].empty())
      one.refuse(fmt::format("the id {} of \"{}\" belongs to \"{}\"",
                             token.id,
                             shown,
                             tokens[std::size_t(token.id)].substr(0, 80)));
    next = std::max(next, token.id + 1);
    put(tokens, token.id, token.content);
    to.added.push_back(token);
  }
}

}  // namespace troupe::runtime
