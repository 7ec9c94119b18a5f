#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/folder.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/waiting.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

std::string xxh3_of(std::span<const std::byte> bytes) {
  return to_string(digester().add(bytes.data(), bytes.size()).result());
}

/// Throws unless the header of a shard matches the manifest.
const stored_tensor& matching(const safetensors_file& file,
                              const stored_shard& record,
                              const std::string& key) {
  const auto* found = file.find(key);
  if (found == nullptr)
    throw input_error(
        "'{}': tensor '{}' is in the manifest but not in the file; the checkpoint is "
        "mixed from several: use another one",
        file.path().string(),
        key);
  if (found->type != record.elements.type || found->extents != record.part.extents)
    throw input_error(
        "'{}': tensor '{}' is {} {} in the manifest but {} {} in the file; the "
        "checkpoint is mixed from several: use another one",
        file.path().string(),
        key,
        to_string(record.elements.type),
        to_string(record.part.extents),
        to_string(found->type),
        to_string(found->extents));
  return *found;
}

/// Returns the system's read error of a file, or an empty text.
std::string reading_refusal(const safetensors_file& file) {
  try {
    file.require_intact();
    return {};
  } catch (const input_error& refusal) {
    return refusal.what();
  }
}

}  // namespace

checkpoint_reader::checkpoint_reader(const fs::path& folder) : folder_(folder) {
  const auto path = folder / manifest_file;
  manifest_ = manifest_from_json(read_text(path), "'" + path.string() + "'");
  const auto expected = iteration_of_folder(folder.filename().string());
  if (expected && *expected != manifest_.iteration)
    throw input_error("'{}': its manifest has iteration {}; restore the name of the folder",
                      folder.string(),
                      manifest_.iteration);
  for (const auto& shard : manifest_.shards)
    add_shard(shard);
}

void checkpoint_reader::add_shard(const shard_record& shard) {
  const auto path = folder_ / shard.file;
  std::error_code failure;
  const auto kind = fs::status(path, failure).type();
  const bool leads_nowhere
      = kind == fs::file_type::not_found || failure == std::errc::too_many_symbolic_link_levels;
  if (failure && !leads_nowhere)
    throw io_error(
        "cannot open '{}': {}; check its owner and permissions", path.string(), failure.message());
  if (!leads_nowhere && kind != fs::file_type::regular)
    throw input_error("'{}' is not a regular file; the checkpoint is damaged: use another one",
                      path.string());
  const auto size = fs::file_size(path, failure);
  if (failure || size != shard.bytes)
    throw input_error(
        "'{}' should have {} bytes, but {}; the checkpoint is incomplete: use "
        "another one",
        path.string(),
        shard.bytes,
        failure ? failure.message() : fmt::format("has {}", size));
  files_.push_back(std::make_unique<safetensors_file>(path));
  const auto& file = *files_.back();
  std::set<std::string> keys;
  for (const auto& record : shard.pieces) {
    const auto key = key_in_file(record);
    if (!keys.insert(key).second)
      throw input_error(
          "'{}': the manifest lists '{}' twice; use another checkpoint", path.string(), key);
    auto& added = pieces_.emplace_back();
    added.file = &file;
    added.stored = &matching(file, record, key);
    added.record = &record;
    index_[record.name].push_back(&added);
  }
  if (file.tensors().size() != shard.pieces.size())
    throw input_error(
        "'{}' has {} tensors, but the manifest lists {}; the checkpoint is mixed "
        "from several: use another one",
        path.string(),
        file.tensors().size(),
        shard.pieces.size());
}

bool checkpoint_reader::is_sound(const piece& x) {
  const std::lock_guard once(x.checking);
  if (!x.sound)
    x.sound = xxh3_of(x.file->bytes(*x.stored)) == x.record->elements.xxh3;
  return x.sound;
}

void checkpoint_reader::require_sound(const piece& x) const {
  const bool sound = is_sound(x);
  x.file->require_intact();
  if (!sound)
    throw input_error(
        "'{}' is damaged in tensor '{}' (its hash differs from the manifest); use "
        "another checkpoint",
        x.file->path().string(),
        x.stored->name);
}

void checkpoint_reader::verify(const std::function<void(std::uint64_t)>& advance) const {
  constexpr std::size_t step = std::size_t{8} << 20;
  std::string damage;
  std::uint64_t done = 0;
  auto at = pieces_.begin();
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const auto& file = *files_[i];
    const auto& shard = manifest_.shards[i];
    sha256 hash;
    for (auto left = file.bytes(); !left.empty();) {
      const auto now = left.first(std::min(step, left.size()));
      hash.add(now.data(), now.size());
      left = left.subspan(now.size());
      done += now.size();
      mark_progress();
      if (advance)
        advance(done);
    }
    std::string tensors;
    for (std::size_t n = 0; n < shard.pieces.size(); ++n, ++at)
      if (!is_sound(*at))
        tensors += fmt::format("{} '{}'", tensors.empty() ? " in tensor" : ",", at->stored->name);
    const auto refusal = reading_refusal(file);
    if (!refusal.empty() || hash.hex() != shard.sha256 || !tensors.empty())
      damage += fmt::format("{}'{}' is damaged{}{}",
                            damage.empty() ? "" : "; ",
                            file.path().string(),
                            tensors.empty() ? " in its header" : tensors,
                            refusal.empty() ? "" : ": " + refusal);
  }
  if (!damage.empty())
    throw input_error("{} (hashes differ from the manifest); use another checkpoint", damage);
}

std::vector<std::string_view> checkpoint_reader::names() const {
  std::vector<std::string_view> out;
  for (const auto& [name, parts] : index_)
    out.push_back(name);
  std::sort(out.begin(), out.end());
  return out;
}

const checkpoint_reader::pieces& checkpoint_reader::find(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end())
    throw input_error(
        "the checkpoint '{}' has no tensor '{}'; it is of another model or was saved "
        "without it",
        folder_.string(),
        name);
  return found->second;
}

const checkpoint_reader::pieces& checkpoint_reader::find(std::string_view name,
                                                         const box& part) const {
  const auto& found = find(name);
  const auto& whole = found.front()->record->whole;
  if (!contains(whole, part))
    throw input_error(
        "the checkpoint '{}' has tensor '{}' as {}, but {} is needed; it is of another model",
        folder_.string(),
        name,
        to_string(whole),
        to_string(part));
  return found;
}

const shape& checkpoint_reader::extents(std::string_view name) const {
  return find(name).front()->record->whole;
}

stored_type checkpoint_reader::type(std::string_view name) const {
  return find(name).front()->record->elements.type;
}

void checkpoint_reader::read(std::string_view name, std::span<float> out) const {
  const auto& whole = extents(name);
  if (std::int64_t(out.size()) != whole.size())
    throw input_error(
        "'{}': tensor '{}' is {}, but {} elements are needed; the checkpoint is of "
        "another model",
        folder_.string(),
        name,
        to_string(whole),
        out.size());
  read(name, runtime::whole(whole), out);
}

void checkpoint_reader::read(std::string_view name, const box& part, std::span<float> out) const {
  find(name, part);
  const auto stored = type(name);
  if (!is_readable_as_f32(stored))
    throw input_error(
        "'{}': tensor '{}' is of type {}, which cannot be read as float; use another "
        "checkpoint",
        folder_.string(),
        name,
        to_string(stored));
  ensure(std::int64_t(out.size()) == part.size(), "CHECKPOINT-6: a box fills its span");
  if (stored == stored_type::f32) {
    read_bytes(name, part, std::as_writable_bytes(out));
    return;
  }
  // Two-byte elements are gathered in the second half of the output and widened from the front:
  // reads stay at or behind writes.
  const auto narrow = std::as_writable_bytes(out).subspan(out.size_bytes() / 2);
  read_bytes(name, part, narrow);
  constexpr std::size_t step = 4096;
  std::array<std::byte, 2 * step> some;
  for (std::size_t i = 0; i < out.size(); i += step) {
    const auto n = std::min(step, out.size() - i);
    std::memcpy(some.data(), narrow.data() + 2 * i, 2 * n);
    to_f32(stored, some.data(), out.subspan(i, n));
  }
}

void checkpoint_reader::read_bytes(std::string_view name,
                                   const box& part,
                                   std::span<std::byte> out) const {
  const auto element = size_of(type(name));
  const auto& found = find(name, part);
  ensure(out.size() == std::size_t(part.size()) * element, "CHECKPOINT-6: a box fills its span");
  for (const auto* x : found) {
    if (intersection(x->record->part, part).size() == 0)
      continue;
    require_sound(*x);
    mark_progress();
    copy_common(x->record->part, x->file->bytes(*x->stored).data(), part, out.data(), element);
    x->file->require_intact();  // pages that were checked earlier may be read from disk again
  }
}

std::unique_ptr<checkpoint_reader> open_checkpoint(
    const fs::path& folder, const std::function<void(std::uint64_t)>& advance) {
  auto reader = std::make_unique<checkpoint_reader>(folder);
  reader->verify(advance);
  return reader;
}

}  // namespace troupe::runtime
