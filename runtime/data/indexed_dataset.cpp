#include "runtime/data/indexed_dataset.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/indexed_format.hpp"
#include "runtime/data/inflating_file.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace troupe::runtime {
namespace {

using namespace indexed_format;

constexpr const char* write_again
    = "it was damaged, cut short, or written by something else; run `troupe preprocess` again";

/// Reads an unaligned value: the arrays start at byte 34.
template <class T>
T load(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void widen(const std::byte* from, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof value);
    out[i] = static_cast<std::int32_t>(value);
  }
}

/// The index of the first token that does not fit, or out.size().
std::size_t narrow(const std::byte* from, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::int64_t value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    out[i] = static_cast<std::int32_t>(value);
    if (out[i] != value)
      return i;
  }
  return out.size();
}

/// The index of the first token that does not fit, or out.size().
std::size_t copy_tokens(token_type type, const std::byte* from, std::span<std::int32_t> out) {
  switch (type) {
    case token_type::u8:
      widen<std::uint8_t>(from, out);
      break;
    case token_type::i8:
      widen<std::int8_t>(from, out);
      break;
    case token_type::i16:
      widen<std::int16_t>(from, out);
      break;
    case token_type::u16:
      widen<std::uint16_t>(from, out);
      break;
    case token_type::i32:
      widen<std::int32_t>(from, out);
      break;
    case token_type::i64:
      return narrow(from, out);
  }
  return out.size();
}

bool known(std::uint8_t code) {
  return (code >= 1 && code <= 5) || code == 8;
}

/// The path of the .bin or .idx. Throws when a local file is missing; a missing object is reported
/// when it is opened.
std::filesystem::path half(const std::filesystem::path& prefix, const char* extension) {
  std::filesystem::path path = prefix.string() + extension;
  if (!is_object_url(path.string()) && !std::filesystem::exists(path)) {
    if (prefix.extension() == ".parquet" && std::filesystem::is_regular_file(prefix))
      static_cast<void>(inflating_file(prefix));  // refuses it
    const bool is_file = prefix.extension() == ".bin" || prefix.extension() == ".idx";
    const auto as_written = prefix.string() + "_text_document";  // by `troupe preprocess`
    const auto near_it = std::filesystem::exists(as_written + extension) ? as_written : "";
    throw input_error("cannot open the data set '{}': there is no '{}'; {}",
                      prefix.string(),
                      path.string(),
                      is_file ? "name it by its prefix, without .bin or .idx"
                      : near_it.empty()
                          ? "a data set is two files, <prefix>.bin and <prefix>.idx: "
                            "check the prefix, or make them with `troupe preprocess` (for "
                            "`data.sft`: `troupe conversations`)"
                          : fmt::format("did you mean '{}'?", near_it));
  }
  return path;
}

}  // namespace

std::size_t size_of(token_type type) {
  switch (type) {
    case token_type::u8:
    case token_type::i8:
      return 1;
    case token_type::i16:
    case token_type::u16:
      return 2;
    case token_type::i32:
      return 4;
    case token_type::i64:
      return 8;
  }
  throw broken_promise("SOURCE-2: a token type is one of six");
}

std::string_view to_string(token_type type) {
  switch (type) {
    case token_type::u8:
      return "uint8";
    case token_type::i8:
      return "int8";
    case token_type::i16:
      return "int16";
    case token_type::u16:
      return "uint16";
    case token_type::i32:
      return "int32";
    case token_type::i64:
      return "int64";
  }
  throw broken_promise("SOURCE-2: a token type is one of six");
}

token_type token_type_for(std::int64_t vocabulary) {
  return vocabulary < 65500 ? token_type::u16 : token_type::i32;
}

std::filesystem::path bin_path(const std::filesystem::path& prefix) {
  return prefix.string() + ".bin";
}

std::filesystem::path idx_path(const std::filesystem::path& prefix) {
  return prefix.string() + ".idx";
}

indexed_dataset::indexed_dataset(std::filesystem::path prefix, const object_access& objects)
    : prefix_(std::move(prefix)),
      idx_(open_index(half(prefix_, ".idx"), objects)),
      bin_(open_bytes(half(prefix_, ".bin"), objects)) {
  check();
}

void indexed_dataset::check() {
  try {
    check_layout();
  } catch (const input_error&) {
    idx_.require_intact();  // a failed read is the better explanation
    throw;
  }
  idx_.require_intact();
}

void indexed_dataset::check_layout() {
  const auto bytes = idx_.bytes();
  const auto path = idx_path(prefix_).string();
  const auto refuse = [&path](const std::string& what) {
    throw input_error("cannot read the index '{}': {}; {}", path, what, write_again);
  };

  if (bytes.size() < lengths_at)
    refuse(fmt::format("it has {} bytes, but its header alone has {}", bytes.size(), lengths_at));
  if (std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
    refuse("it does not start with MMIDIDX");
  if (const auto found = load<std::uint64_t>(bytes, version_at); found != version)
    refuse(fmt::format("it has version {}, but only version {} is supported", found, version));
  const auto code = load<std::uint8_t>(bytes, type_at);
  if (code == 6 || code == 7)
    refuse("its tokens are floating point numbers, not token ids");
  if (!known(code))
    refuse(fmt::format("its token type has code {}, but only 1 to 5 and 8 are supported", code));
  type_ = token_type{code};

  const auto lengths = load<std::uint64_t>(bytes, sequence_count_at);
  const auto indices = load<std::uint64_t>(bytes, document_count_at);
  // Checks the counts before multiplying: forged ones would overflow.
  if (lengths > bytes.size() / 12 || indices > bytes.size() / 8
      || bytes.size() < lengths_at + 12 * lengths + 8 * indices)
    refuse(
        fmt::format("its {} bytes are too few for the {} sequences and {} document indices that "
                    "it announces",
                    bytes.size(),
                    lengths,
                    indices));
  const auto needed = lengths_at + 12 * lengths + 8 * indices;
  if (lengths > 0 && bytes.size() == needed + lengths)
    throw input_error(
        "cannot read the index '{}': it has sequence modes, so its data set mixes images and text; "
        "give a data set of text alone",
        path);
  if (bytes.size() != needed)
    refuse(fmt::format("it has {} bytes, but its counts announce {}", bytes.size(), needed));
  if (lengths > std::uint64_t(std::numeric_limits<std::int32_t>::max()))
    throw input_error(
        "cannot read the index '{}': it has {} sequences, the maximum is 2147483647; split the "
        "data "
        "set",
        path,
        lengths);
  if (indices == 0)
    refuse("it has no document index; even an empty data set has one");
  sequences_ = static_cast<std::int64_t>(lengths);
  documents_ = static_cast<std::int64_t>(indices) - 1;

  const auto item = static_cast<std::int64_t>(size_of(type_));
  for (std::int64_t i = 0; i < sequences_; ++i) {
    if (length(i) < 0)
      refuse(fmt::format("its sequence {} has length {}", i, length(i)));
    if (pointer(i) != tokens_ * item)
      refuse(
          fmt::format("its sequence {} starts at byte {} of the .bin, but the sequences before "
                      "it end at byte {}",
                      i,
                      pointer(i),
                      tokens_ * item));
    tokens_ += length(i);  // at most 2^31 lengths below 2^31
  }
  if (const auto size = bin_->size(); size != std::uint64_t(tokens_ * item))
    throw input_error(
        "cannot read the data set '{}': its .bin has {} bytes, but its .idx describes {} tokens of "
        "{}, which are {} bytes; the two files do not match: copy both again, or run `troupe "
        "preprocess` again",
        prefix_.string(),
        size,
        tokens_,
        to_string(type_),
        tokens_ * item);

  std::int64_t before = 0;
  for (std::int64_t d = 0; d <= documents_; ++d) {
    const auto begin = document_begin(d);
    if ((d == 0 && begin != 0) || begin < before || begin > sequences_)
      refuse(
          fmt::format("its document {} starts at sequence {}, after one that starts at {}, of "
                      "{} sequences",
                      d,
                      begin,
                      before,
                      sequences_));
    before = begin;
  }
  if (before != sequences_)
    refuse(fmt::format("its last document ends at sequence {} of {}", before, sequences_));
}

std::int32_t indexed_dataset::length(std::int64_t sequence) const {
  ensure(sequence >= 0 && sequence < sequences_, "SOURCE-1: only sequences that exist are read");
  return load<std::int32_t>(idx_.bytes(), lengths_at + 4 * static_cast<std::size_t>(sequence));
}

std::int64_t indexed_dataset::pointer(std::int64_t sequence) const {
  return load<std::int64_t>(idx_.bytes(),
                            lengths_at + static_cast<std::size_t>(4 * sequences_ + 8 * sequence));
}

std::int64_t indexed_dataset::document_begin(std::int64_t document) const {
  ensure(document >= 0 && document <= documents_, "SOURCE-1: only documents that exist are read");
  return load<std::int64_t>(idx_.bytes(),
                            lengths_at + static_cast<std::size_t>(12 * sequences_ + 8 * document));
}

void indexed_dataset::get(std::int64_t sequence,
                          std::int64_t offset,
                          std::span<std::int32_t> out) const {
  const auto all = length(sequence);
  const auto begin = pointer(sequence);
  idx_.require_intact();
  ensure(offset >= 0 && offset <= all && out.size() <= std::size_t(all - offset),
         "SOURCE-1: only tokens that exist are read");
  const auto item = size_of(type_);
  std::vector<std::byte> scratch;
  const auto* const from
      = bin_->bytes(std::uint64_t(begin) + std::uint64_t(offset) * item, out.size() * item, scratch)
            .data();
  const auto bad = copy_tokens(type_, from, out);
  bin_->require_intact();
  if (bad < out.size())
    throw input_error(
        "cannot use token {} of {}: {} does not fit 32 bits, so it is not a token id; run `troupe "
        "preprocess` again",
        offset + std::int64_t(bad),
        place(sequence),
        load<std::int64_t>({from, 8 * out.size()}, 8 * bad));
}

void indexed_dataset::expect(std::int64_t sequence, std::int64_t offset, std::size_t count) const {
  const auto item = size_of(type_);
  bin_->expect(std::uint64_t(pointer(sequence)) + std::uint64_t(offset) * item, count * item);
}

std::string indexed_dataset::place(std::int64_t sequence) const {
  std::int64_t low = 0, high = documents_;  // finds d with begin(d) <= sequence < begin(d+1)
  while (high - low > 1) {
    const auto middle = low + (high - low) / 2;
    (document_begin(middle) <= sequence ? low : high) = middle;
  }
  return fmt::format("'{}', document {} (sequence {})", bin_path(prefix_).string(), low, sequence);
}

}  // namespace troupe::runtime
