#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/folder.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "runtime/core/hash.hpp"

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

std::string xxh3_of(std::span<const std::byte> bytes) {
  return to_string(digester().add(bytes.data(), bytes.size()).result());
}

/// Throws unless the header of a shard says what the manifest says.
const stored_tensor& matching(const safetensors_file& file, const tensor_record& record) {
  const auto* found = file.find(record.name);
  if (found == nullptr)
    throw input_error(
        "'{}': tensor '{}' is in the manifest but not in the file; the checkpoint is "
        "mixed from several: use another one",
        file.path().string(),
        record.name);
  if (found->type != record.type || found->extents != record.extents)
    throw input_error(
        "'{}': tensor '{}' is {} {} in the manifest but {} {} in the file; the "
        "checkpoint is mixed from several: use another one",
        file.path().string(),
        record.name,
        to_string(record.type),
        to_string(record.extents),
        to_string(found->type),
        to_string(found->extents));
  return *found;
}

}  // namespace

checkpoint_reader::checkpoint_reader(const fs::path& folder) : folder_(folder) {
  const auto path = folder / manifest_file;
  manifest_ = manifest_from_json(mapped_file(path).text(), "'" + path.string() + "'");
  const auto expected = iteration_of_folder(folder.filename().string());
  if (expected && *expected != manifest_.iteration)
    throw input_error("'{}' is of iteration {} by its manifest; give the folder its name back",
                      folder.string(),
                      manifest_.iteration);
  for (const auto& shard : manifest_.shards) {
    std::error_code failure;
    const auto size = fs::file_size(folder / shard.file, failure);
    if (failure && failure != std::errc::no_such_file_or_directory)
      throw io_error("cannot open '{}': {}; check its owner and permissions",
                     (folder / shard.file).string(),
                     failure.message());
    if (failure || size != shard.bytes)
      throw input_error(
          "'{}' should have {} bytes, but {}; the checkpoint is incomplete: use "
          "another one",
          (folder / shard.file).string(),
          shard.bytes,
          failure ? failure.message() : fmt::format("has {}", size));
    files_.push_back(std::make_unique<safetensors_file>(folder / shard.file));
    const auto& file = *files_.back();
    for (const auto& record : shard.tensors)
      index_.emplace(record.name, place{&file, &matching(file, record), &record});
    if (file.tensors().size() != shard.tensors.size())
      throw input_error(
          "'{}' has {} tensors, but the manifest lists {}; the checkpoint is mixed "
          "from several: use another one",
          file.path().string(),
          file.tensors().size(),
          shard.tensors.size());
  }
}

void checkpoint_reader::verify() const {
  std::string damage;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const auto& file = *files_[i];
    const auto& shard = manifest_.shards[i];
    sha256 hash;
    hash.add(file.bytes().data(), file.bytes().size());
    if (hash.hex() == shard.sha256)
      continue;
    std::string tensors;
    for (const auto& record : shard.tensors)
      if (xxh3_of(file.bytes(*find(record.name).tensor)) != record.xxh3)
        tensors += fmt::format("{} '{}'", tensors.empty() ? " in tensor" : ",", record.name);
    damage += fmt::format("{}'{}' is damaged{}",
                          damage.empty() ? "" : "; ",
                          file.path().string(),
                          tensors.empty() ? " in its header" : tensors);
  }
  if (!damage.empty())
    throw input_error("{} (hashes differ from the manifest); use another checkpoint", damage);
}

const checkpoint_reader::place& checkpoint_reader::find(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end())
    throw input_error(
        "the checkpoint '{}' has no tensor '{}'; it is of another model or was saved "
        "without it",
        folder_.string(),
        name);
  return found->second;
}

const shape& checkpoint_reader::extents(std::string_view name) const {
  return find(name).tensor->extents;
}

void checkpoint_reader::read(std::string_view name, std::span<float> out) const {
  const auto& [file, tensor, record] = find(name);
  if (std::int64_t(out.size()) != tensor->extents.size())
    throw input_error(
        "'{}': tensor '{}' is {}, but {} elements are needed; the checkpoint is of "
        "another model",
        file->path().string(),
        name,
        to_string(tensor->extents),
        out.size());
  if (xxh3_of(file->bytes(*tensor)) != record->xxh3)
    throw input_error(
        "'{}' is damaged in tensor '{}' (its hash differs from the manifest); use "
        "another checkpoint",
        file->path().string(),
        name);
  file->read(*tensor, 0, out);
}

std::unique_ptr<checkpoint_reader> open_checkpoint(const fs::path& folder) {
  auto reader = std::make_unique<checkpoint_reader>(folder);
  reader->verify();
  return reader;
}

}  // namespace troupe::runtime
