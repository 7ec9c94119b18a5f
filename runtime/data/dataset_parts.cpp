#include "runtime/data/dataset_parts.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/indexed_format.hpp"
#include "runtime/file/file_reader.hpp"

#include <vector>

namespace troupe::runtime {
namespace {

std::filesystem::path part(const std::filesystem::path& prefix, const char* name) {
  return prefix.string() + name + ".partial";
}

constexpr const char* of_bin = ".bin";
constexpr const char* of_idx = ".idx";
constexpr const char* of_lengths = ".lengths";
constexpr const char* of_documents = ".documents";
constexpr const char* of_manifest = ".manifest.json";  // written by write_manifest

/// Calls `visit` for the first `count` values of the file.
template <class T, class Visit>
void for_each_value(const std::filesystem::path& path, std::int64_t count, const Visit& visit) {
  file_reader in(path);
  if (in.size() < std::uint64_t(count) * sizeof(T))
    throw input_error("cannot resume '{}': it has {} bytes, but {} were written",
                      path.string(),
                      in.size(),
                      std::uint64_t(count) * sizeof(T));
  std::vector<T> values;
  for (std::int64_t done = 0; done < count; done += std::int64_t(values.size())) {
    values.resize(std::size_t(std::min<std::int64_t>(count - done, 1 << 16)));
    auto* const bytes = reinterpret_cast<char*>(values.data());
    for (std::size_t filled = 0; filled < values.size() * sizeof(T);)
      filled += in.read(bytes + filled, values.size() * sizeof(T) - filled);
    for (const auto x : values)
      visit(x);
  }
}

void write_index_part(const std::filesystem::path& prefix,
                      token_type type,
                      const dataset_progress& written) {
  part_file out(part(prefix, of_idx), 0);
  const auto put = [&out](const auto& value) { out.write(&value, sizeof value); };
  out.write(indexed_format::magic.data(), indexed_format::magic.size());
  put(indexed_format::version);
  put(type);
  put(std::uint64_t(written.sequences));
  put(std::uint64_t(written.documents) + 1);
  const auto lengths = part(prefix, of_lengths);
  for_each_value<std::int32_t>(lengths, written.sequences, put);
  std::int64_t pointer = 0;
  for_each_value<std::int32_t>(lengths, written.sequences, [&](std::int32_t length) {
    put(pointer);
    pointer += length * std::int64_t(size_of(type));
  });
  put(std::int64_t{0});
  for_each_value<std::int64_t>(part(prefix, of_documents), written.documents, put);
  out.sync();
}

/// Checks that the published data set is the one that was written. After a manual removal of the
/// parts it can be an older one of the same name.
void require_published(const std::filesystem::path& prefix,
                       token_type type,
                       const dataset_progress& written) {
  const auto bin = std::uint64_t(written.tokens) * size_of(type);
  const auto idx = indexed_format::lengths_at + 12 * std::uint64_t(written.sequences)
                   + 8 * (std::uint64_t(written.documents) + 1);
  std::error_code failure;
  if (std::filesystem::file_size(bin_path(prefix), failure) != bin
      || std::filesystem::file_size(idx_path(prefix), failure) != idx)
    throw input_error(
        "cannot resume '{}': its parts are gone, and the data set of that name is another one; "
        "start "
        "again",
        prefix.string());
}

}  // namespace

dataset_parts::dataset_parts(std::filesystem::path prefix,
                             token_type type,
                             const dataset_progress& from)
    : prefix_(std::move(prefix)),
      type_(type),
      progress_(from),
      in_documents_(from.sequences),
      bin_(part(prefix_, of_bin), std::uint64_t(from.tokens) * size_of(type)),
      lengths_(part(prefix_, of_lengths), std::uint64_t(from.sequences) * sizeof(std::int32_t)),
      documents_(part(prefix_, of_documents),
                 std::uint64_t(from.documents) * sizeof(std::int64_t)) {}

void dataset_parts::add(std::span<const char> tokens,
                        std::span<const std::int32_t> lengths,
                        std::span<const std::int64_t> sequences_of_documents) {
  add_tokens(tokens);
  add_lengths(lengths);
  add_documents(sequences_of_documents);
  require_whole_documents();
}

void dataset_parts::add_tokens(std::span<const char> tokens) {
  bin_.write(tokens.data(), tokens.size());
  progress_.tokens += std::int64_t(tokens.size() / size_of(type_));
}

void dataset_parts::add_lengths(std::span<const std::int32_t> lengths) {
  if (std::int64_t(lengths.size()) > most_sequences - progress_.sequences)
    throw input_error(
        "cannot write the data set '{}': it would have more than {} sequences, the maximum of the "
        "format; write several data sets, and train on a blend of them",
        prefix_.string(),
        most_sequences);
  lengths_.write(lengths.data(), lengths.size_bytes());
  progress_.sequences += std::int64_t(lengths.size());
}

void dataset_parts::add_documents(std::span<const std::int64_t> sequences_of_documents) {
  for (const auto n : sequences_of_documents) {
    in_documents_ += n;
    documents_.write(&in_documents_, sizeof in_documents_);
  }
  progress_.documents += std::int64_t(sequences_of_documents.size());
}

void dataset_parts::require_whole_documents() const {
  ensure(in_documents_ == progress_.sequences, "BUILDER-1: every sequence is in an ended document");
}

void dataset_parts::sync() {
  require_whole_documents();
  bin_.sync();
  lengths_.sync();
  documents_.sync();
}

void publish_dataset(const std::filesystem::path& prefix,
                     token_type type,
                     const dataset_progress& written,
                     const std::optional<dataset_manifest>& made_by) {
  const auto bin = part(prefix, of_bin);
  // Parts are removed after the .idx is visible. So a missing part means that a previous call
  // published the data set.
  if (!std::filesystem::exists(bin) && std::filesystem::exists(idx_path(prefix))
      && (!std::filesystem::exists(part(prefix, of_documents))
          || !std::filesystem::exists(part(prefix, of_lengths)))) {
    require_published(prefix, type, written);
    remove_parts(prefix);
    return;
  }
  write_index_part(prefix, type, written);
  if (std::filesystem::exists(bin)) {
    // A crash here leaves a .bin without an .idx, but never an .idx of another .bin or manifest.
    remove_file(idx_path(prefix));
    write_manifest(prefix, made_by);
    rename_part(bin, bin_path(prefix));
  }
  rename_part(part(prefix, of_idx), idx_path(prefix));
  remove_parts(prefix);
}

void remove_parts(const std::filesystem::path& prefix) {
  for (const auto* name : {of_bin, of_idx, of_documents, of_lengths, of_manifest})
    remove_file(part(prefix, name));
}

}  // namespace troupe::runtime
