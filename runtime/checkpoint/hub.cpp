#include "runtime/checkpoint/hub.hpp"

#include "runtime/checkpoint/gguf_model.hpp"
#include "runtime/checkpoint/manifest.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/log.hpp"
#include "runtime/family/families.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <set>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* one_file = "model.safetensors";
constexpr const char* index_file = "model.safetensors.index.json";

/// Reads the index: the file of each tensor.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const auto where = "'" + path.string() + "'";
  std::map<std::string, std::string> out;
  const auto json = parse_json(read_text(path), where);
  for (const auto& [name, file] : object_member(json, "weight_map", where).items()) {
    if (!file.is_string())
      throw input_error("{}: 'weight_map' should name the file of {}, but has {}",
                        where,
                        shown(nlohmann::json(name)),
                        shown(file));
    require_plain_file_name(file.get<std::string>(), where);
    out[name] = file.get<std::string>();
  }
  return out;
}

void transpose(const std::function<void(std::int64_t, std::span<float>)>& read,
               const hub_rows& rows,
               std::int64_t columns,
               float* out) {
  std::vector<float> line(std::size_t(rows.count));
  for (std::int64_t c = 0; c < columns; ++c) {
    read(c * rows.of + rows.first, line);
    for (std::int64_t r = 0; r < rows.count; ++r)
      out[r * columns + c] = line[std::size_t(r)];
  }
}

}  // namespace

std::int64_t row_size(const shape& x) {
  return x.rank() == 1 ? 1 : x[x.rank() - 1];
}

shape source_extents(const hub_recipe& recipe, const hub_rows& rows) {
  if (recipe.extents.rank() == 1)
    return {rows.of};
  const auto columns = row_size(recipe.extents);
  return recipe.transposed ? shape{columns, rows.of} : shape{rows.of, columns};
}

const hub_translation& hub_model::translation() const {
  return *config_.family().hub();
}

bool hub_model::has(std::string_view name) const {
  return std::any_of(
      recipes_.begin(), recipes_.end(), [&](const hub_recipe& x) { return x.name == name; });
}

const hub_recipe& hub_model::recipe(std::string_view name) const {
  for (const auto& x : recipes_)
    if (x.name == name)
      return x;
  throw broken_promise("HUB-1: only parameters that the model has are asked for: "
                       + std::string(name));
}

const shape& hub_model::extents(std::string_view name) const {
  return recipe(name).extents;
}

void hub_model::read(std::string_view name, std::span<float> out) const {
  const auto& found = recipe(name);
  ensure(std::int64_t(out.size()) == found.extents.size(),
         "HUB-2: a parameter is read into as many elements as it has");
  std::size_t done = 0;
  for (const auto& rows : found.rows) {
    const auto part = out.subspan(done, std::size_t(rows.count * row_size(found.extents)));
    read_rows(found, rows, part);
    done += part.size();
  }
}

void hub_model::read(std::string_view name, const box& part, std::span<float> out) const {
  const auto& found = recipe(name);
  ensure(contains(found.extents, part) && std::int64_t(out.size()) == part.size(),
         "HUB-2: a parameter is read into as many elements as it has");
  if (part == whole(found.extents))
    return read(name, out);
  std::int64_t done = 0;
  for (const auto& rows : found.rows) {
    const auto begin = done;
    done += rows.count * row_size(found.extents);
    std::vector<float> values;  // of all the rows, if the box has some of them
    auto at = begin;
    for (const auto& piece : boxes_of_range(whole(found.extents), begin, done)) {
      if (intersection(piece, part).size() > 0) {
        if (values.empty()) {
          values.resize(std::size_t(done - begin));
          read_rows(found, rows, values);
        }
        copy_common(piece, values.data() + (at - begin), part, out.data(), sizeof(float));
      }
      at += piece.size();
    }
  }
}

void hub_model::read_rows(const hub_recipe& of, const hub_rows& rows, std::span<float> out) const {
  const auto columns = row_size(of.extents);
  const auto& source = sources_.find(rows.source)->second;
  if (of.transposed)
    transpose(source.read, rows, columns, out.data());
  else
    source.read(rows.first * columns, out);
}

void hub_model::open(const fs::path& dir) {
  std::map<std::string, std::string> index;  // empty: there is a single file
  std::set<std::string> names;
  std::error_code ignored;  // an unreadable file counts as missing
  if (fs::exists(dir / one_file, ignored)) {
    names.insert(one_file);
  } else if (fs::exists(dir / index_file, ignored)) {
    index = read_index(dir / index_file);
    for (const auto& entry : index)
      names.insert(entry.second);
  } else if (fs::exists(dir / gguf_weights, ignored)) {
    gguf_ = std::make_unique<gguf_file>(dir / gguf_weights);
  } else {
    throw input_error("'{}' has neither {} nor {}; only models saved as safetensors are read",
                      dir.string(),
                      one_file,
                      index_file);
  }
  for (const auto& name : names) {
    files_.push_back(std::make_unique<safetensors_file>(dir / name));
    for (const auto& x : files_.back()->tensors()) {
      const auto listed = index.find(x.name);
      if (!index.empty() && (listed == index.end() || listed->second != name))
        throw input_error(
            "'{}' has tensor '{}', but the index does not list it there; get both again",
            (dir / name).string(),
            x.name);
      const auto* const file = files_.back().get();
      tensor_source source{.file = &file->path(),
                           .type = to_string(x.type),
                           .extents = x.extents,
                           .bytes = file->bytes(x),
                           .read = {}};
      if (is_readable_as_f32(x.type))
        source.read = [file, tensor = &x](std::int64_t first, std::span<float> out) {
          file->read(*tensor, first, out);
        };
      sources_.emplace(x.name, std::move(source));
    }
  }
}

/// Called before recipes are made, so that a config.json alone cannot cause huge allocations.
void hub_model::check_size(const fs::path& dir) const {
  std::size_t bytes = 0;
  for (const auto& file : files_)
    bytes += file->bytes().size();
  if (gguf_)  // has fewer bytes than elements
    for (const auto& x : gguf_->tensors())
      bytes += std::size_t(x.extents.size());
  if (std::uint64_t(parameter_count(config_)) > bytes)
    throw input_error(
        "'{}': config.json describes {} parameters, but the files have only {} bytes; "
        "the folder is incomplete or of another model",
        dir.string(),
        parameter_count(config_),
        bytes);
}

void hub_model::check_sources(const fs::path& dir) const {
  for (const auto& recipe : recipes_)
    for (const auto& rows : recipe.rows) {
      const auto found = sources_.find(rows.source);
      if (found == sources_.end())
        throw input_error(
            "'{}': tensor '{}' of the model in config.json is missing; the folder is incomplete, "
            "or of another model",
            dir.string(),
            rows.source);
      const auto& x = found->second;
      const auto expected = source_extents(recipe, rows);
      if (x.extents != expected || !x.read)
        throw input_error(
            "'{}': tensor '{}' is {} {}, but by config.json it should be {} of F32, "
            "F16 or BF16",
            x.file->string(),
            rows.source,
            x.type,
            to_string(x.extents),
            to_string(expected));
    }
}

void hub_model::check_unread(const fs::path& dir) const {
  std::set<std::string_view> read;
  for (const auto& recipe : recipes_)
    for (const auto& rows : recipe.rows)
      read.insert(rows.source);
  std::vector<std::string_view> left_out;
  for (const auto& [name, where] : sources_) {
    if (read.contains(name) || translation().is_constant(name))
      continue;
    if (translation().is_left_out(config_, name)) {
      left_out.push_back(name);
      continue;
    }
    const auto original = translation().copied_from(name, recipes_);
    if (original.empty())
      throw input_error(
          "'{}': tensor '{}' is not a part of the model that config.json describes; the model "
          "cannot be imported",
          dir.string(),
          name);
    check_copy(name, original);
  }
  if (!left_out.empty())
    log_warning(
        "'{}': {} tensors are of parts that {} lacks, and are left out; the first one is '{}'",
        dir.string(),
        left_out.size(),
        config_.family().title(),
        left_out.front());
}

void hub_model::check_copy(const std::string& name, const std::string& original) const {
  const auto &copy = sources_.find(name)->second, &of = sources_.find(original)->second;
  const auto a = copy.bytes, b = of.bytes;
  if (a.size() != b.size() || !std::equal(a.begin(), a.end(), b.begin()))
    throw input_error(
        "'{}': '{}' differs from the word embedding, although config.json "
        "ties them; set tie_word_embeddings to false",
        copy.file->string(),
        name);
}

hub_model read_hub_model(const fs::path& dir) {
  hub_model out;
  out.config_ = hub_config(read_hub_config(dir), "'" + (dir / "config.json").string() + "'");
  out.open(dir);
  out.check_size(dir);
  out.recipes_ = out.translation().recipes(out.config_, [&out](std::string_view name) {
    return out.gguf_ || out.sources_.contains(name);
  });
  if (out.gguf_)
    out.place_gguf(dir);
  out.check_sources(dir);
  out.check_unread(dir);
  return out;
}

}  // namespace troupe::runtime
