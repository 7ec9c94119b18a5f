// Small checkpoints; their elements depend on their iteration.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "tests/support/numbers.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace troupe::tests {

using namespace runtime;

inline gpt_config tiny_model() {
  gpt_config x;
  x.layers = 1;
  x.hidden = x.head_size = 8;
  x.heads = x.groups = 1;
  x.ffn = 32;
  x.sequence = x.positions = 16;
  x.vocabulary = x.padded_vocabulary = 32;
  return x;
}

/// Elements of the tensors of an iteration; they differ between iterations.
inline std::vector<float> elements(std::int64_t iteration, std::size_t n = 64) {
  return normal<float>(n, std::uint32_t(iteration));
}

inline std::filesystem::path save(const std::filesystem::path& dir,
                                  std::int64_t iteration,
                                  std::size_t n = 64,
                                  const std::string& identity = R"({"seed":1234})") {
  checkpoint_writer writer(dir, iteration, generation_id{1});
  const auto a = elements(iteration, n), b = elements(iteration + 1, n);
  const std::int64_t size = std::int64_t(n);
  const shard_to_write model[] = {whole_tensor("a", stored_type::f32, {size / 8, 8}, a.data())};
  const shard_to_write optimizer[]
      = {whole_tensor("exp_avg.a", stored_type::f32, {size / 8, 8}, b.data()),
         whole_tensor("exp_avg_sq.a", stored_type::f32, {size / 8, 8}, a.data())};
  checkpoint_manifest manifest;
  manifest.consumed_samples = 4 * iteration;
  manifest.model = tiny_model();
  manifest.identity = identity;
  manifest.layout = R"({"tensor":1})";
  manifest.shards.push_back(writer.write_shard(shard_file("model", 1, 1), model));
  manifest.shards.push_back(writer.write_shard(shard_file("optimizer", 1, 1), optimizer));
  return writer.commit(manifest);
}

inline bool has_elements_of(const std::filesystem::path& folder, std::int64_t iteration) {
  const checkpoint_reader reader(folder);
  std::vector<float> a(64), b(64);
  reader.read("a", a);
  reader.read("exp_avg.a", b);
  return a == elements(iteration) && b == elements(iteration + 1);
}

inline std::vector<std::string> names_in(const std::filesystem::path& dir) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(dir))
    out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

inline void flip_byte(const std::filesystem::path& path, std::streamoff from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-from_end, std::ios::end);
  const char x = char(file.get() ^ 1);
  file.seekp(-from_end, std::ios::end);
  file.put(x);
}

using names = std::vector<std::string>;
inline const std::string tracker = "latest_checkpointed_iteration.txt";

}  // namespace troupe::tests
