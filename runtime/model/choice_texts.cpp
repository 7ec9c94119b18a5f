#include "runtime/model/choice_texts.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <system_error>

namespace troupe::runtime {
namespace {

constexpr const char* tokens_file = "texts";
constexpr std::array<char, 8> text_magic = {'T', 'R', 'T', 'E', 'X', 'T', 'S', 0};
constexpr std::uint32_t text_version = 1;

/// The beginning of the file. T words of each text follow: token + 1, or 0 after its end.
struct text_header {
  std::array<char, 8> magic;
  std::uint32_t version, unused;
  std::uint64_t positions;
};
static_assert(sizeof(text_header) == 24 && std::endian::native == std::endian::little);

/// Throws input_error if the folder has choices, which may belong to other texts.
std::filesystem::path new_folder(const std::filesystem::path& folder) {
  std::error_code failure;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure))
    if (at->path().extension() == ".choices" || at->path().filename() == tokens_file)
      throw input_error(
          "cannot record choices of experts in '{}': it has '{}' of an earlier record; name "
          "another folder, or remove that record",
          folder.string(),
          at->path().filename().string());
  make_folder(folder);
  return folder / tokens_file;
}

/// Of the tokens so far.
std::uint64_t next_hash(std::uint64_t hash, std::int32_t token) {
  hash = (hash ^ std::uint32_t(token)) * 0x9E3779B97F4A7C15U;
  return hash ^ hash >> 29;
}

}  // namespace

choice_text_writer::choice_text_writer(const std::filesystem::path& folder, std::int64_t positions)
    : positions_(positions), tokens_(new_folder(folder)), choices_(folder) {
  const text_header header{text_magic, text_version, 0, std::uint64_t(positions)};
  tokens_.write(0, &header, sizeof(header));
}

void choice_text_writer::write_tokens(std::uint64_t text,
                                      std::int64_t first,
                                      std::span<const std::int32_t> tokens) {
  ensure(first >= 0 && first + std::int64_t(tokens.size()) <= positions_,
         "CHOICES-3: a text has its place in the record");
  std::vector<std::uint32_t> words;
  for (const auto token : tokens)
    words.push_back(std::uint32_t(token) + 1);
  const auto word = text * std::uint64_t(positions_) + std::uint64_t(first);
  tokens_.write(sizeof(text_header) + word * sizeof(std::uint32_t),
                words.data(),
                words.size() * sizeof(std::uint32_t));
}

void choice_text_writer::write_choices(std::uint64_t text,
                                       std::int64_t first,
                                       const recorded_choice& x,
                                       std::int64_t row,
                                       std::int64_t count) {
  auto rows = x.rows;
  rows.positions = positions_;
  rows.samples = {text};
  rows.first = first;
  rows.count = count;
  const auto begin = x.chosen.begin() + row * rows.each;
  choices_.write({std::move(rows), {begin, begin + count * x.rows.each}});
}

bool choice_texts::are_in(const std::filesystem::path& folder) {
  std::error_code failure;
  return std::filesystem::exists(folder / tokens_file, failure);
}

choice_texts::choice_texts(const std::filesystem::path& folder) : file_(folder / tokens_file) {
  text_header found{};
  const auto all = file_.bytes();
  constexpr auto most = std::uint64_t{1} << 40;
  if (all.size() >= sizeof(found))
    std::memcpy(&found, all.data(), sizeof(found));
  if (found.magic != text_magic || found.version != text_version || found.positions == 0
      || found.positions > most)
    throw input_error(
        "cannot replay '{}': the file does not begin like version {} of the texts of recorded "
        "choices; record them again",
        (folder / tokens_file).string(),
        text_version);
  positions_ = std::int64_t(found.positions);
  const auto words = (all.size() - sizeof(found)) / sizeof(std::uint32_t);
  size_ = (words + found.positions - 1) / found.positions;
  for (std::uint64_t text = 0; text < size_; ++text) {
    const auto its = tokens(text);
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i + 1 < its.size(); ++i)
      hash = next_hash(hash, its[i]);
    if (its.size() > 1)
      by_rows_.emplace(hash, text);
  }
}

std::vector<std::int32_t> choice_texts::tokens(std::uint64_t text) const {
  const auto words = file_.bytes().subspan(sizeof(text_header));
  std::vector<std::int32_t> out;
  for (auto at = text * std::uint64_t(positions_) * sizeof(std::uint32_t);
       std::int64_t(out.size()) < positions_ && at + sizeof(std::uint32_t) <= words.size();
       at += sizeof(std::uint32_t)) {
    std::uint32_t word = 0;
    std::memcpy(&word, words.data() + at, sizeof(word));
    if (word == 0)
      break;
    out.push_back(std::int32_t(word - 1));
  }
  return out;
}

std::optional<choice_texts::place> choice_texts::find(std::span<const std::int32_t> tokens) const {
  std::optional<place> out;
  std::uint64_t hash = 0;
  for (std::size_t n = 1; n <= tokens.size(); ++n) {
    hash = next_hash(hash, tokens[n - 1]);
    const auto [begin, end] = by_rows_.equal_range(hash);
    for (auto at = begin; at != end; ++at) {
      const auto its = this->tokens(at->second);
      const auto shared = std::ptrdiff_t(std::min(n + 1, tokens.size()));
      if (its.size() == n + 1 && std::equal(its.begin(), its.begin() + shared, tokens.begin()))
        out = place{at->second, std::int64_t(n)};
    }
  }
  return out;
}

}  // namespace troupe::runtime
