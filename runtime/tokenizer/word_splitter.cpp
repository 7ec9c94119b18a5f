#include "runtime/tokenizer/word_splitter.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"

#include <algorithm>
#include <string>

namespace troupe::runtime {
namespace {

std::string marked(std::string_view text, bool first, const space_marks& by) {
  const bool put
      = by.put == space_marks::before::always || (by.put == space_marks::before::first && first);
  std::string out;
  if (put && !text.starts_with(by.mark) && !text.starts_with(' '))
    out = by.mark;
  for (std::size_t at = 0; at < text.size();) {
    const auto blank = std::min(text.find(' ', at), text.size());
    out += text.substr(at, blank - at);
    if (blank < text.size())
      out += by.mark;
    at = blank + 1;
  }
  return out;
}

}  // namespace

word_splitter::worker::worker(const word_splitter& by) : by_(by) {
  static const expression nothing("(?!)");
  for (const auto& one : by_.rules_) {
    const auto* const rule = std::get_if<split_rule>(&one);
    searches_.emplace_back(rule ? rule->what : nothing);
  }
}

void word_splitter::worker::split(std::string_view text, bool first, const visitor& word) {
  put_ = 0;
  most_put_ = 100 * text.size() + 10000;
  if (!text.empty())
    split(text, first, 0, word);
}

/// Bounds memory: each rule can make a text longer.
const std::string& word_splitter::worker::counted(const std::string& put) {
  put_ += put.size();
  if (put_ > most_put_)
    throw input_error(
        "splitting a text into words gives more than {} bytes: the tokenizer's pre-tokenizers "
        "replace each other's replacements",
        most_put_);
  return put;
}

void word_splitter::worker::split(std::string_view text,
                                  bool first,
                                  std::size_t rule,
                                  const visitor& word) {
  if (rule == by_.rules_.size())
    return word(text);
  const auto& one = by_.rules_[rule];
  if (std::holds_alternative<prefix_space>(one)) {
    if (text.starts_with(' '))
      return split(text, first, rule + 1, word);
    return split(counted(' ' + std::string(text)), first, rule + 1, word);
  }
  if (const auto* const marks = std::get_if<space_marks>(&one))
    return split(counted(marked(text, first, *marks)), first, rule + 1, word);
  if (std::holds_alternative<bytes_to_characters>(one))
    return split(counted(to_characters(text)), first, rule + 1, word);
  const auto& by = std::get<split_rule>(one);
  if (rule + 1 == by_.rules_.size())
    return split(text, by, searches_[rule], word);
  split(text, by, searches_[rule], [&](std::string_view part) {
    split(part, first && part.data() == text.data(), rule + 1, word);
  });
}

void word_splitter::worker::split(std::string_view text,
                                  const split_rule& by,
                                  expression_search& search,
                                  const visitor& part) {
  std::size_t begin = 0, end = 0;  // the current part, which may still grow
  bool last_meant = false;
  const auto hand_out = [&] {
    if (end > begin)
      part(text.substr(begin, end - begin));
    begin = end;
  };
  // Adds the stretch [end, to), which is a match or lies between two matches.
  const auto add = [&](std::size_t to, bool matched) {
    if (to == end && !matched)
      return;
    const bool meant = matched != by.inverted;
    const bool grows = by.behavior == split_behavior::contiguous             ? meant == last_meant
                       : by.behavior == split_behavior::merged_with_previous ? meant && !last_meant
                       : by.behavior == split_behavior::merged_with_next     ? !meant && last_meant
                                                                             : false;
    if (!grows)
      hand_out();
    end = to;
    if (meant && by.behavior == split_behavior::removed)
      begin = end;
    last_meant = meant;
  };
  bool matched = false;
  std::size_t last = 0;  // end of the last match
  for (std::size_t from = 0; from < text.size();) {
    const auto found = search.find(text, from);
    if (!found)
      break;
    const bool empty
        = found->end == found->begin;  // an empty match splits the text and takes nothing
    from = empty ? next_character(text, found->end) : found->end;
    if (empty && matched && found->begin == last)
      continue;  // an empty match directly after a match does not count
    add(found->begin, false);
    add(found->end, true);
    matched = true;
    last = found->end;
  }
  add(text.size(), false);
  hand_out();
}

}  // namespace troupe::runtime
