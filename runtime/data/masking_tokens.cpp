#include "runtime/data/masking_tokens.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace troupe::runtime {
namespace {

constexpr const char* classify_token = "[CLS]";
constexpr const char* separator_token = "[SEP]";

class named_ids {
 public:
  explicit named_ids(const tokenizer& by) : kind_(by.kind()) {
    for (std::int32_t id = 0; id < by.vocabulary_size(); ++id)
      ids_.emplace(by.token(id), id);
  }

  std::optional<std::int32_t> find(const std::string& name) const {
    const auto found = ids_.find(name);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  /// The first of the names that exists; notes all of them if none does.
  std::int32_t first_of(std::initializer_list<const char*> names, std::string& missing) const {
    for (const auto* name : names)
      if (const auto id = find(name))
        return *id;
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", fmt::join(names, " or "));
    return -1;
  }
  void require(const std::string& missing, const char* use) const {
    if (!missing.empty())
      throw input_error(
          "the tokenizer, a {}, lacks {}, which {} need: give a tokenizer that has them, such as a "
          "BERT's vocab.txt",
          kind_,
          missing,
          use);
  }

 private:
  std::string kind_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

}  // namespace

masking_vocabulary masking_vocabulary_of(const tokenizer& by, std::int64_t ids) {
  masking_vocabulary out;
  out.continues.resize(std::size_t(ids));
  const auto named = std::min(std::int64_t(by.vocabulary_size()), ids);
  for (std::int32_t id = 0; id < named; ++id) {
    const auto token = by.token(id);
    out.continues[std::size_t(id)] = token.starts_with("##");
    if (token == classify_token)
      out.classify = id;
    else if (token == separator_token)
      out.separator = id;
  }
  return out;
}

masked_pair_tokens pair_tokens_of(const tokenizer& by) {
  const named_ids all(by);
  std::string missing;
  const masked_pair_tokens out{.classify = all.first_of({classify_token}, missing),
                               .separator = all.first_of({separator_token}, missing),
                               .mask = all.first_of({"[MASK]"}, missing)};
  all.require(missing, "samples of masked words");
  return out;
}

std::int32_t padding_of(const tokenizer& by) {
  return named_ids(by).find("[PAD]").value_or(0);
}

masked_span_tokens span_tokens_of(const tokenizer& by, std::int64_t extra_ids, std::int64_t begin) {
  if (const auto ids = by.vocabulary_size() + extra_ids; begin >= ids)
    throw input_error(
        "the texts of a decoder cannot begin with `model.decoder_start` {}: the ids of the "
        "tokenizer and its sentinels are below {}; give one of these",
        begin,
        ids);
  const named_ids all(by);
  std::string missing;
  if (begin < 0)
    begin = all.first_of({"[BOS]", "<s>", "<pad>", classify_token}, missing);
  masked_span_tokens out{.begin = std::int32_t(begin),
                         .end = all.first_of({"[EOS]", "</s>", separator_token}, missing)};
  all.require(missing, "the texts of a decoder");
  for (int k = 0; const auto id = all.find(fmt::format("<extra_id_{}>", k)); ++k)
    out.sentinels.push_back(*id);
  if (out.sentinels.empty()) {
    out.sentinels.resize(std::size_t(extra_ids));
    std::iota(out.sentinels.begin(), out.sentinels.end(), by.vocabulary_size());
  }
  return out;
}

}  // namespace troupe::runtime
