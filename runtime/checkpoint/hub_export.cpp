#include "runtime/checkpoint/hub_export.hpp"

#include "kernels/op/bf16.hpp"
#include "kernels/op/f16.hpp"
#include "runtime/checkpoint/folder.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/file_lock.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <unistd.h>
#include <unordered_map>
#include <utility>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

/// A single file is named "model.safetensors", as transformers expects.
std::string file_name(std::size_t index, std::size_t count) {
  return count == 1 ? "model.safetensors"
                    : fmt::format("model-{:05d}-of-{:05d}.safetensors", index + 1, count);
}

stored_type type_of(const hub_tensor& x, const hub_export& what) {
  return x.stays_f32 ? stored_type::f32 : what.type;
}

std::uint64_t bytes_of(const hub_tensor& x, const hub_export& what) {
  return std::uint64_t(x.extents.size()) * size_of(type_of(x, what));
}

/// Groups tensors into files: as many as fit, in order.
std::vector<std::span<const hub_tensor>> files_of(std::span<const hub_tensor> all,
                                                  const hub_export& what) {
  std::vector<std::span<const hub_tensor>> out;
  for (std::size_t first = 0; first < all.size();) {
    auto end = first;
    for (std::uint64_t bytes = 0; end < all.size(); ++end) {
      bytes += bytes_of(all[end], what);
      if (end > first && bytes > what.shard_bytes)
        break;
    }
    out.push_back(all.subspan(first, end - first));
    first = end;
  }
  return out;
}

/// Throws input_error if the Hub has no models of the family.
const hub_translation& translation_of(const model_description& model) {
  if (const auto* const hub = model.family().hub())
    return *hub;
  throw input_error("the Hub has no models of the family '{}', so none can be exported",
                    model.family().name());
}

/// The rows of a piece: with several matrices they are all in one.
box box_of(const hub_piece& x) {
  const auto columns = row_size(x.extents);
  if (x.extents.rank() == 1)
    return {{x.first}, {x.count}};
  if (x.extents.rank() == 2)
    return {{x.first, 0}, {x.count, columns}};
  const auto rows = x.extents[1];
  return {{x.first / rows, x.first % rows, 0}, {1, x.count, columns}};
}

template <class T>
std::vector<std::byte> rounded_bytes(const std::vector<float>& from, const std::string& name) {
  std::vector<std::byte> out(from.size() * sizeof(T));
  for (std::size_t i = 0; i < from.size(); ++i) {
    const T rounded(from[i]);
    if (std::isfinite(from[i]) && !std::isfinite(float(rounded)))
      throw input_error(
          "{} has an element {}, which is beyond float16 (65504): export as bfloat16 or float32",
          name,
          from[i]);
    std::memcpy(out.data() + i * sizeof rounded, &rounded, sizeof rounded);
  }
  return out;
}

/// Returns the elements as stored in the file.
std::vector<std::byte> stored_bytes(const std::vector<float>& from,
                                    stored_type type,
                                    const std::string& name) {
  if (type == stored_type::bf16)
    return rounded_bytes<kernels::bf16>(from, name);
  if (type == stored_type::f16)
    return rounded_bytes<kernels::f16>(from, name);
  ensure(type == stored_type::f32, "HUB-3: a model is exported as f32, bf16 or f16");
  std::vector<std::byte> out(from.size() * sizeof(float));
  std::memcpy(out.data(), from.data(), out.size());
  return out;
}

/// A staging folder beside the target; renamed to the target when complete.
class staged_folder {
 public:
  explicit staged_folder(fs::path target) : target_(std::move(target)) {
    if (!target_.has_filename())  // the path ends with a slash
      target_ = target_.parent_path();
    std::error_code ignored;
    if (fs::exists(target_, ignored) && !fs::is_empty(target_, ignored))
      throw input_error("'{}' exists and is not empty; name a new folder", target_.string());
    make_folder(target_.parent_path());  // the folder of the lock
    lock_.emplace(target_, "export to");
    const auto hidden = target_.parent_path() / ("." + target_.filename().string());
    lock_->remove_part_folders(hidden);
    // An existing one may belong to a process of equal pid on a host that does not see this lock.
    auto name = fmt::format("{}.partial-{}", hidden.string(), ::getpid());
    for (std::error_code refused; !fs::create_directory(name, refused); name += '0')
      if (refused)
        throw io_error("cannot create the folder '{}': {}", name, refused.message());
    staging_ = name;
  }
  ~staged_folder() {
    std::error_code ignored;
    if (!staging_.empty())
      fs::remove_all(staging_, ignored);
  }
  staged_folder(const staged_folder&) = delete;
  staged_folder& operator=(const staged_folder&) = delete;

  const fs::path& path() const { return staging_; }

  void publish() {
    rename_durably(staging_, target_);  // replaces an empty folder, if any
    staging_.clear();
  }

 private:
  fs::path target_, staging_;
  std::optional<file_lock> lock_;
};

void write_file(const fs::path& path,
                std::span<const hub_tensor> tensors,
                const hub_export& what,
                const hub_source& read,
                const std::function<void(std::uint64_t)>& advance,
                std::uint64_t& done) {
  std::vector<std::vector<std::byte>> elements;
  std::vector<shard_to_write> out;
  for (const auto& x : tensors) {
    const auto type = type_of(x, what);
    elements.push_back(stored_bytes(assembled(x, what, read), type, x.name));
    out.push_back(whole_tensor(x.name, type, x.extents, elements.back().data()));
    done += elements.back().size();
    if (advance)
      advance(done);
  }
  write_safetensors(path, out, {{"format", "pt"}});
}

void write_index(const fs::path& path,
                 const std::vector<std::span<const hub_tensor>>& files,
                 std::uint64_t bytes) {
  nlohmann::ordered_json map;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (const auto& x : files[i])
      map[x.name] = file_name(i, files.size());
  const nlohmann::ordered_json index
      = {{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}};
  write_text(path, json_text(index, 2) + "\n");
}

}  // namespace

std::vector<float> assembled(const hub_tensor& x, const hub_export& what, const hub_source& read) {
  std::vector<float> out(std::size_t(x.extents.size()));
  std::vector<float> rows;
  const auto& translation = translation_of(what.model);
  for (const auto& piece : x.pieces) {
    const auto columns = row_size(piece.extents);
    rows.resize(std::size_t(piece.count * columns));
    read(piece.parameter, box_of(piece), rows);
    if (const auto offset = translation.offset(what.model, piece.parameter); offset != 0)
      for (auto& gain : rows)
        gain += offset;
    if (!x.transposed) {
      std::copy(rows.begin(), rows.end(), out.begin() + piece.at * columns);
      continue;
    }
    const auto width = x.extents[1];
    for (std::int64_t r = 0; r < piece.count; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        out[std::size_t(c * width + piece.at + r)] = rows[std::size_t(r * columns + c)];
  }
  return out;
}

std::vector<hub_tensor> hub_tensors(const model_description& model, hub_parts parts) {
  const auto& translation = translation_of(model);
  std::vector<hub_tensor> out;
  std::unordered_map<std::string, std::size_t> places;
  for (const auto& recipe : translation.recipes(model, {})) {
    std::int64_t first = 0;
    for (const auto& rows : recipe.rows) {
      const auto name
          = parts == hub_parts::all ? rows.source : translation.name_in_body(rows.source);
      if (name.empty())
        continue;
      const auto [place, is_new] = places.emplace(name, out.size());
      if (is_new)
        out.push_back(
            {name, source_extents(recipe, rows), recipe.transposed, {}, recipe.stays_f32});
      out[place->second].pieces.push_back(
          {recipe.name, recipe.extents, first, rows.first, rows.count});
      first += rows.count;
    }
  }
  return out;
}

std::string hub_config_json(const model_description& model,
                            std::optional<std::int32_t> end_of_document,
                            stored_type type,
                            hub_parts parts) {
  const auto& translation = translation_of(model);
  const auto json
      = parts == hub_parts::all ? translation.config_json(model) : translation.body_json(model);
  if (json.empty())
    throw input_error("the Hub has no model without heads of the family '{}': export all of it",
                      model.family().name());
  auto out = ordered_json_value(json);
  out["torch_dtype"] = type == stored_type::bf16  ? "bfloat16"
                       : type == stored_type::f16 ? "float16"
                                                  : "float32";
  const auto end = end_of_document ? nlohmann::ordered_json(*end_of_document)
                                   : nlohmann::ordered_json(nullptr);
  out["bos_token_id"] = end;
  out["eos_token_id"] = end;
  return json_text(out, 2) + "\n";
}

std::uint64_t hub_bytes(const hub_export& what) {
  std::uint64_t bytes = 0;
  for (const auto& x : hub_tensors(what.model, what.parts))
    bytes += bytes_of(x, what);
  return bytes;
}

void write_hub_model(const fs::path& dir,
                     const hub_export& what,
                     const hub_source& read,
                     const std::function<void(std::uint64_t)>& advance) {
  const bool returned = describes(what.origin, what.model);
  auto config
      = returned ? returned_config(
            what.origin, hub_config_json(what.model, {}, what.type, what.parts), what.added_end)
                 : hub_config_json(what.model, what.end_of_document, what.type, what.parts);
  if (!returned && what.decoder_start) {
    auto fields = ordered_json_value(config);
    fields["decoder_start_token_id"] = *what.decoder_start;
    config = json_text(fields, 2) + "\n";
  }
  const auto generation
      = returned ? returned_generation_config(what.origin, what.added_end) : std::string();
  const auto tensors = hub_tensors(what.model, what.parts);
  const auto files = files_of(tensors, what);
  staged_folder folder(fs::absolute(dir).lexically_normal());
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < files.size(); ++i)
    write_file(folder.path() / file_name(i, files.size()), files[i], what, read, advance, done);
  if (files.size() > 1)
    write_index(folder.path() / "model.safetensors.index.json", files, done);
  write_text(folder.path() / "config.json", config);
  if (!generation.empty())
    write_text(folder.path() / "generation_config.json", generation);
  if (!what.vocab_file.empty())
    write_hub_tokenizer(folder.path(), what);
  for (const auto& [file, name] : what.tokenizer_files) {
    make_folder((folder.path() / name).parent_path());
    write_text(folder.path() / name, read_text(file));
  }
  folder.publish();
}

}  // namespace troupe::runtime
