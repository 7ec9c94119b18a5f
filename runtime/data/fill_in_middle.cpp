#include "runtime/data/fill_in_middle.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/expression.hpp"
#include "runtime/tokenizer/pre_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace troupe::runtime {
namespace {

/// The id of a token. Several ids can have the same text; prefers the one that `encode` gives.
std::optional<std::int32_t> id_of(const std::string& token, const tokenizer& by) {
  if (token.empty())
    return {};
  try {
    const auto ids = by.encode(token, special_tokens::recognised);
    if (ids.size() == 1 && by.decode(ids) == token)
      return ids.front();
  } catch (const input_error&) {  // the tokenizer cannot encode this text
  }
  for (std::int32_t id = 0; id < by.vocabulary_size(); ++id)
    if (by.decode(std::array{id}) == token)
      return id;
  return {};
}

/// The offsets of all characters, and the end of the text.
std::vector<std::size_t> borders_in(std::string_view text) {
  std::vector<std::size_t> out = {0};
  for (std::size_t at = 0; at < text.size();) {
    for (const auto end = at + valid_utf8_prefix(text.substr(at)); at < end;)
      out.push_back(at = next_character(text, at));
    if (at < text.size())
      out.push_back(at += invalid_utf8_prefix(text.substr(at)));
  }
  return out;
}

enum class empty_pieces { dropped, kept };

/// Calls permute() for each non-empty piece that ends at a separator, and for the piece after the
/// last separator. Separators after empty pieces are `dropped` or `kept`.
template <class F>
void each_piece(std::span<const std::int32_t> in,
                std::int32_t separator,
                empty_pieces empty,
                std::vector<std::int32_t>& out,
                F&& permute) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] != separator)
      continue;
    if (i > begin)
      permute(in.subspan(begin, i - begin));
    if (i > begin || empty == empty_pieces::kept)
      out.push_back(separator);
    begin = i + 1;
  }
  permute(in.subspan(begin));
}

void require_share(const char* name, double x, std::vector<std::string>& wrong) {
  if (!(x >= 0 && x <= 1))
    wrong.push_back(fmt::format("`data.fim.{}` {} is not a probability: give 0 to 1", name, x));
}

}  // namespace

void validate_fim(const fim_settings& x, std::vector<std::string>& wrong) {
  require_share("rate", x.rate, wrong);
  require_share("spm_rate", x.spm_rate, wrong);
  require_share("fragment_rate", x.fragment_rate, wrong);
}

fill_in_middle::fill_in_middle(const fim_settings& settings,
                               std::shared_ptr<const tokenizer> by,
                               std::uint32_t seed)
    : settings_(settings), by_(std::move(by)), seed_(seed) {
  std::string missing;
  const auto find = [&](const char* name, const std::string& token) {
    const auto id = id_of(token, *by_);
    if (!id)
      missing += fmt::format("{}`data.fim.{}` '{}'", missing.empty() ? "" : ", ", name, token);
    return id.value_or(no_token);
  };
  prefix_ = find("prefix_token", settings.prefix_token);
  middle_ = find("middle_token", settings.middle_token);
  suffix_ = find("suffix_token", settings.suffix_token);
  pad_ = find("pad_token", settings.pad_token);
  end_ = find("eod_token", settings.eod_token);
  if (!settings.split_sample.empty())
    split_ = find("split_sample", settings.split_sample);
  if (!missing.empty())
    throw input_error(
        "cannot train to fill in the middle: the {} has no such token: {}; name tokens that it "
        "has, "
        "or add these tokens to its files",
        by_->kind(),
        missing);
  const std::pair<const char*, std::int32_t> all[] = {{"prefix_token", prefix_},
                                                      {"middle_token", middle_},
                                                      {"suffix_token", suffix_},
                                                      {"pad_token", pad_},
                                                      {"eod_token", end_},
                                                      {"split_sample", split_}};
  for (const auto* one = std::begin(all); one != std::end(all); ++one)
    for (const auto* other = one + 1; other != std::end(all); ++other)
      if (one->second == other->second)
        throw input_error(
            "cannot train to fill in the middle: `data.fim.{}` and `data.fim.{}` are the same "
            "token: give each its own",
            one->first,
            other->first);
}

std::string fill_in_middle::text_of(std::span<const std::int32_t> piece) const {
  tokens kept;
  std::ranges::copy_if(
      piece, std::back_inserter(kept), [this](auto id) { return !by_->is_special(id); });
  return by_->decode(kept);
}

void fill_in_middle::permute(std::span<const std::int32_t> piece,
                             double rate,
                             numpy_random_state& draws,
                             tokens& out) const {
  const auto as_it_is = [&] { out.insert(out.end(), piece.begin(), piece.end()); };
  if (!draws.bernoulli(rate))
    return as_it_is();
  const auto whole = text_of(piece);
  if (!settings_.no_prefix.empty() && whole.starts_with(settings_.no_prefix))
    return as_it_is();
  const auto borders = borders_in(whole);
  auto first = borders[draws.interval(borders.size() - 1)];
  auto second = borders[draws.interval(borders.size() - 1)];
  if (first > second)
    std::swap(first, second);
  const std::string_view text(whole);
  const auto prefix = text.substr(0, first), middle = text.substr(first, second - first),
             suffix = text.substr(second);
  const bool suffix_first = draws.bernoulli(settings_.spm_rate);
  out.push_back(prefix_);
  if (!suffix_first)
    by_->append(prefix, out);
  out.push_back(suffix_);
  by_->append(suffix, out);
  out.push_back(middle_);
  if (suffix_first)
    by_->append(prefix, out);
  by_->append(middle, out);
}

void fill_in_middle::permute_document(std::span<const std::int32_t> document,
                                      numpy_random_state& draws,
                                      tokens& out) const {
  if (split_ == no_token || std::ranges::find(document, split_) == document.end())
    return permute(document, settings_.rate, draws, out);
  if (!draws.bernoulli(settings_.rate)) {
    out.insert(out.end(), document.begin(), document.end());
    return;
  }
  const auto permute_fragment = [&](std::span<const std::int32_t> fragment) {
    permute(fragment, settings_.fragment_rate, draws, out);
  };
  each_piece(document, split_, empty_pieces::kept, out, permute_fragment);
}

std::size_t fill_in_middle::apply(std::uint64_t sample, std::span<std::int32_t> text) const {
  numpy_random_state draws(std::uint32_t(seed_ + sample));
  tokens out;
  out.reserve(text.size() + 16);
  const auto permute_whole
      = [&](std::span<const std::int32_t> document) { permute_document(document, draws, out); };
  each_piece(text, end_, empty_pieces::dropped, out, permute_whole);
  const auto size = std::min(out.size(), text.size());
  const auto rest = std::copy_n(out.begin(), size, text.begin());
  std::fill(rest, text.end(), pad_);
  return size;
}

}  // namespace troupe::runtime
