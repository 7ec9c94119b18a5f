#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "tests/runtime/checkpoint/saved.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

/// The elements of a box of a whole tensor.
template <class T>
std::vector<T> part_of(const std::vector<T>& all, const shape& of, const box& part) {
  std::vector<T> out(std::size_t(part.size()));
  copy_common(whole(of), all.data(), part, out.data(), sizeof(T));
  return out;
}

/// Boxes that cover a tensor: split repeatedly by rows, columns or ranges.
std::vector<box> random_cut(const shape& of, std::mt19937& random, int cuts) {
  std::vector<box> out = {whole(of)};
  for (; cuts > 0; --cuts) {
    const auto which = random() % out.size();
    const auto x = out[which];
    out.erase(out.begin() + std::ptrdiff_t(which));
    const auto axis = int(random() % unsigned(of.rank() + 1));
    if (axis == of.rank()) {
      const auto at = std::int64_t(random() % std::uint64_t(x.size() + 1));
      for (const auto& [begin, end] : {std::pair(std::int64_t(0), at), std::pair(at, x.size())})
        for (const auto& part : boxes_of_range(x, begin, end))
          out.push_back(part);
      continue;
    }
    const auto at = std::int64_t(random() % std::uint64_t(x.extents[axis] + 1));
    for (const bool second : {false, true}) {
      box half;
      for (int i = 0; i < of.rank(); ++i) {
        const auto cut = i == axis ? at : 0;
        half.first.push_back(x.first[i] + (second ? cut : 0));
        half.extents.push_back(i != axis ? x.extents[i] : second ? x.extents[i] - at : at);
      }
      if (half.size() > 0)
        out.push_back(half);
    }
  }
  return out;
}

struct tensor {
  std::string name;
  stored_type type;
  shape extents;
  std::vector<float> values;
  std::vector<std::uint16_t> halves;  ///< bf16: the upper half of each value
};

std::vector<tensor> tensors() {
  std::vector<tensor> out = {{"matrix", stored_type::f32, {13, 17}, {}, {}},
                             {"vector", stored_type::f32, {29}, {}, {}},
                             {"cube", stored_type::f32, {3, 5, 7}, {}, {}},
                             {"narrow", stored_type::bf16, {11, 31}, {}, {}},
                             {"scalar", stored_type::f32, {}, {}, {}}};
  std::uint32_t seed = 1;
  for (auto& x : out) {
    x.values = normal<float>(std::size_t(x.extents.size()), seed++);
    for (auto& value : x.values) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      x.halves.push_back(std::uint16_t(bits >> 16));
      bits &= 0xffff0000;
      if (x.type == stored_type::bf16)
        std::memcpy(&value, &bits, sizeof bits);
    }
  }
  return out;
}

/// Distributes the pieces over `shards` files at random.
fs::path save_in_parts(const fs::path& dir,
                       const std::vector<tensor>& all,
                       std::mt19937& random,
                       int cuts,
                       int shards) {
  checkpoint_writer writer(dir, 1, generation_id{1});
  std::vector<std::vector<shard_to_write>> files{std::size_t(shards)};
  std::vector<std::unique_ptr<std::vector<std::byte>>> kept;
  for (const auto& x : all)
    for (const auto& part : random_cut(x.extents, random, cuts)) {
      const auto size = std::size_t(part.size()) * size_of(x.type);
      const auto& data = *kept.emplace_back(std::make_unique<std::vector<std::byte>>(size));
      const void* from = x.values.data();
      if (x.type == stored_type::bf16)
        from = x.halves.data();
      copy_common(whole(x.extents), from, part, kept.back()->data(), size_of(x.type));
      files[random() % files.size()].push_back({x.name, x.extents, part, {x.type, data.data()}});
    }
  checkpoint_manifest manifest;
  manifest.model = tiny_model();
  for (int i = 0; i < shards; ++i)
    manifest.shards.push_back(
        writer.write_shard(shard_file("model", i + 1, shards), files[std::size_t(i)]));
  return writer.commit(manifest);
}

}  // namespace

TEST_CASE("a checkpoint saved in some pieces is read in others, bit for bit", "[checkpoint]") {
  std::mt19937 random(7);
  const auto all = tensors();
  for (int round = 0; round < 12; ++round) {
    const scratch_folder dir;
    const auto folder = save_in_parts(dir.path(), all, random, 1 + round, 1 + round % 3);
    const auto reader = open_checkpoint(folder);
    CHECK(reader->names().size() == all.size());
    for (const auto& x : all) {
      INFO(x.name);
      CHECK(reader->extents(x.name) == x.extents);
      CHECK(reader->type(x.name) == x.type);
      std::vector<float> whole_again(x.values.size());
      reader->read(x.name, whole_again);
      CHECK(whole_again == x.values);
      for (const auto& part : random_cut(x.extents, random, 6)) {
        std::vector<float> out(std::size_t(part.size()));
        reader->read(x.name, part, out);
        CHECK(out == part_of(x.values, x.extents, part));
      }
    }
  }
}

TEST_CASE("the names of pieces in a file include their boxes", "[checkpoint]") {
  const scratch_folder dir;
  const float x[] = {1, 2, 3, 4, 5, 6};
  const shard_to_write parts[] = {{"w", {2, 3}, {{0, 0}, {2, 2}}, {stored_type::f32, x}},
                                  {"w", {2, 3}, {{0, 2}, {2, 1}}, {stored_type::f32, x + 4}},
                                  {"whole", {2}, {{0}, {2}}, {stored_type::f32, x}}};
  write_safetensors(dir / "x.safetensors", parts);
  const safetensors_file file(dir / "x.safetensors");
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.tensors()[0].name == "w[0:2, 0:2]");
  CHECK(file.tensors()[1].name == "w[0:2, 2:3]");
  CHECK(file.tensors()[1].extents == shape{2, 1});
  CHECK(file.tensors()[2].name == "whole");
  const shard_to_write outside[] = {{"w", {3}, {{2}, {2}}, {stored_type::f32, x}}};
  CHECK_BREAKS("SAFETENSORS-3", write_safetensors(dir / "y", outside));
  const shard_to_write twice[] = {parts[0], parts[0]};
  CHECK_BREAKS("SAFETENSORS-1", write_safetensors(dir / "y", twice));
  checkpoint_writer writer(dir.path(), 1, generation_id{1});
  const shard_to_write bracket[] = {whole_tensor("w[0:1]", stored_type::f32, {1}, x)};
  CHECK_BREAKS("CHECKPOINT-5", writer.write_shard("a.safetensors", bracket));
  const shard_to_write empty[] = {{"w", {4}, {{2}, {0}}, {stored_type::f32, x}}};
  CHECK_BREAKS("CHECKPOINT-5", writer.write_shard("b.safetensors", empty));
}

// CHECKPOINT-COVER
TEST_CASE("a checkpoint with a gap or an overlap does not become visible", "[checkpoint]") {
  const scratch_folder dir;
  const float x[12] = {};
  const auto commit = [&](const std::vector<shard_to_write>& parts) {
    checkpoint_writer writer(dir.path(), 1, generation_id{1});
    checkpoint_manifest manifest;
    manifest.model = tiny_model();
    manifest.shards.push_back(writer.write_shard("a.safetensors", parts));
    writer.commit(manifest);
  };
  const shard_to_write left = {"w", {4, 3}, {{0, 0}, {4, 2}}, {stored_type::f32, x}};
  CHECK_THROWS_WITH(commit({left}),
                    ContainsSubstring("\"w\"") && ContainsSubstring("[0:4, 2:3] is in none"));
  CHECK_THROWS_WITH(commit({left, {"w", {4, 3}, {{0, 1}, {4, 2}}, {stored_type::f32, x}}}),
                    ContainsSubstring("[0:4, 0:2] and [0:4, 1:3] overlap"));
  CHECK_THROWS_WITH(commit({left, {"w", {4, 3}, {{0, 2}, {4, 1}}, {stored_type::f16, x}}}),
                    ContainsSubstring("F32 (4, 3) in one piece but F16 (4, 3)"));
  CHECK_THROWS_WITH(commit({left, {"w", {4, 4}, {{0, 2}, {4, 1}}, {stored_type::f32, x}}}),
                    ContainsSubstring("F32 (4, 3) in one piece but F32 (4, 4)"));
  CHECK_FALSE(fs::exists(dir / "iter_0000001"));
}

TEST_CASE("a damaged piece is named, and the others can be read", "[checkpoint]") {
  const scratch_folder dir;
  const float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
  checkpoint_manifest manifest;
  manifest.model = tiny_model();
  checkpoint_writer writer(dir.path(), 1, generation_id{1});
  const shard_to_write parts[] = {{"w", {8}, {{0}, {4}}, {stored_type::f32, x}},
                                  {"w", {8}, {{4}, {4}}, {stored_type::f32, x + 4}}};
  manifest.shards.push_back(writer.write_shard("a.safetensors", parts));
  const auto folder = writer.commit(manifest);
  flip_byte(folder / "a.safetensors", 1);
  const checkpoint_reader reader(folder);
  float some[3];
  reader.read("w", box{{1}, {3}}, some);
  CHECK(some[2] == 4);
  CHECK_THROWS_WITH(reader.read("w", box{{2}, {3}}, some), ContainsSubstring("'w[4:8]'"));
  CHECK_THROWS_WITH(reader.verify(), ContainsSubstring("in tensor 'w[4:8]'"));
  CHECK_BREAKS("CHECKPOINT-6", reader.read("w", box{{1}, {2}}, some));
  CHECK_THROWS_WITH(reader.read("w", box{{6}, {3}}, some),
                    ContainsSubstring("[6:9] is needed") && ContainsSubstring("(8)"));
  CHECK_THROWS_WITH(reader.read("w", box{{0, 0}, {1, 3}}, some), ContainsSubstring("is needed"));
}

TEST_CASE("a checkpoint of thousands of pieces is written and read", "[checkpoint]") {
  const scratch_folder dir;
  const shape of = {4096, 64};
  const auto values = elements(1, std::size_t(of.size()));
  std::vector<shard_to_write> parts;
  for (std::int64_t i = 0; i < 4096; ++i)
    for (const auto& part : {box{{i, 0}, {1, 24}}, box{{i, 24}, {1, 40}}})
      parts.push_back({"w", of, part, {stored_type::f32, values.data() + 64 * i + part.first[1]}});
  checkpoint_writer writer(dir.path(), 1, generation_id{1});
  checkpoint_manifest manifest;
  manifest.model = tiny_model();
  manifest.shards.push_back(writer.write_shard("a.safetensors", parts));
  const checkpoint_reader reader(writer.commit(manifest));
  std::vector<float> out(values.size());
  reader.read("w", out);
  CHECK(out == values);
}

TEST_CASE("several threads can read boxes at the same time", "[checkpoint]") {
  std::mt19937 random(3);
  const scratch_folder dir;
  const auto all = tensors();
  const checkpoint_reader reader(save_in_parts(dir.path(), all, random, 8, 2));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (const auto& x : all) {
        std::vector<float> out(x.values.size());
        reader.read(x.name, out);
        wrong += out == x.values ? 0 : 1;
      }
    });
  for (auto& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}

namespace {

/// A manifest with these pieces and a valid seal.
std::string manifest_with(const std::string& pieces, int version = 2) {
  checkpoint_manifest x;
  x.model = tiny_model();
  x.shards.push_back({"a.safetensors", 1, std::string(64, '0'), {}});
  auto text = to_json(x);
  const auto put = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  put("\"pieces\": []", pieces);
  put("\"format_version\": 2", "\"format_version\": " + std::to_string(version));
  const auto digits = text.size() - 68;
  text.replace(digits, 64, std::string(64, '0'));
  sha256 hash;
  hash.add(text.data(), text.size());
  return text.replace(digits, 64, hash.hex());
}

std::string piece(const std::string& whole, const std::string& first, const std::string& extents) {
  return R"({"name": "w", "shape": )" + whole + R"(, "first": )" + first + R"(, "extents": )"
         + extents + R"(, "dtype": "F32", "xxh3": ")" + std::string(32, '0') + R"("})";
}

std::string refusal(const std::string& pieces, int version = 2) {
  try {
    manifest_from_json(manifest_with(pieces, version), "'it'");
    return "";
  } catch (const input_error& failure) {
    return failure.what();
  }
}

}  // namespace

TEST_CASE("a manifest with impossible pieces is refused with the reason", "[checkpoint]") {
  const auto list = [](const std::string& all) { return "\"pieces\": [" + all + "]"; };
  CHECK(refusal(list("")) == "");
  CHECK(refusal(list(piece("[4, 8]", "[0, 0]", "[4, 8]"))) == "");
  CHECK(refusal(list(piece("[]", "[]", "[]"))) == "");
  CHECK(refusal(list(piece("[4]", "[0]", "[2]") + "," + piece("[4]", "[2]", "[2]"))) == "");
  struct row {
    std::string pieces;
    const char* expected;
  };
  const row rows[] = {
      {R"("pieces": {})", "'pieces' should be a list"},
      {R"("tensors": {})", "'pieces' is missing"},
      {list("1"), "should be an object"},
      {list("{}"), "'name' is missing"},
      {list(piece("[4]", "[0]", "[2]")), "[2:4] is in none of its 1 pieces"},
      {list(piece("[4]", "[0]", "[4]") + "," + piece("[4]", "[0]", "[4]")), "in two pieces"},
      {list(piece("[4]", "[0]", "[3]") + "," + piece("[4]", "[2]", "[2]")), "overlap"},
      {list(piece("[4]", "[0]", "[2]") + "," + piece("[5]", "[2]", "[2]")), "in one piece"},
      {list(piece("[4]", "[1]", "[4]")), "does not lie inside its shape (4)"},
      {list(piece("[4]", "[0, 0]", "[4]")), "does not lie inside"},
      {list(piece("[4]", "[0, 0]", "[4, 1]")), "does not lie inside"},
      {list(piece("[4]", "[]", "[]")), "does not lie inside"},
      {list(piece("[4]", "[0]", "[0]") + "," + piece("[4]", "[0]", "[4]")), "without elements"},
      {list(piece("[4]", "[-1]", "[5]")), "impossible number: -1"},
      {list(piece("[4]", "[0.0]", "[4]")), "impossible number: 0.0"},
      {list(piece("[4]", "0", "[4]")), "list of at most 4"},
      {list(piece("[1, 1, 1, 1, 4]", "[0]", "[4]")), "list of at most 4"},
      {list(piece("[4]", "[18446744073709551615]", "[1]")), "impossible number"},
      {list(piece("[4]", "[9223372036854775807]", "[1]")), "impossible number"},
      {list(piece("[1099511627776, 1099511627776]", "[0, 0]", "[1, 1]")), "impossible number"},
      {list(piece("[4294967296, 4294967296]", "[0, 0]", "[1, 1]")), "impossible number"},
      {list(piece("[1099511627776]", "[0]", "[1]")), "is in none"},
  };
  for (const auto& [pieces, expected] : rows) {
    INFO(pieces);
    CHECK_THAT(refusal(pieces), ContainsSubstring(expected) && ContainsSubstring("'it'"));
  }
  auto bracket = list(piece("[4]", "[0]", "[4]"));
  bracket.replace(bracket.find("\"w\""), 3, "\"w[0:4]\"");
  CHECK_THAT(refusal(bracket), ContainsSubstring("bracket"));
  auto type = list(piece("[4]", "[0]", "[4]"));
  type.replace(type.find("F32"), 3, "F31");
  CHECK_THAT(refusal(type), ContainsSubstring("F31"));
  CHECK_THAT(refusal(list(""), 3), ContainsSubstring("version 3") && ContainsSubstring("1 to 2"));
  CHECK_THAT(refusal(list(""), 0), ContainsSubstring("version 0"));
}

TEST_CASE("manifest and header must agree on each piece", "[checkpoint]") {
  const scratch_folder dir;
  const float x[8] = {};
  const auto save_cut = [&](std::int64_t iteration, std::int64_t at) {
    checkpoint_writer writer(dir.path(), iteration, generation_id{1});
    const shard_to_write parts[] = {{"w", {8}, {{0}, {at}}, {stored_type::f32, x}},
                                    {"w", {8}, {{at}, {8 - at}}, {stored_type::f32, x}}};
    checkpoint_manifest manifest;
    manifest.model = tiny_model();
    manifest.shards.push_back(writer.write_shard("a.safetensors", parts));
    return writer.commit(manifest);
  };
  const auto one = save_cut(1, 3), two = save_cut(2, 5);
  fs::copy_file(one / "a.safetensors", two / "a.safetensors", fs::copy_options::overwrite_existing);
  CHECK_THROWS_WITH(checkpoint_reader(two),
                    ContainsSubstring("'w[0:5]' is in the manifest but not in the file"));
}

TEST_CASE("checkpoints of format version 1 can be read", "[checkpoint]") {
  // Built as version 1 wrote them: whole tensors, a map of them, the seal over all.
  const scratch_folder dir;
  const auto folder = dir / "iter_0000003";
  fs::create_directory(folder);
  const float values[] = {1, 2, 3, 4, 5, 6};
  const shard_to_write tensors[] = {whole_tensor("w", stored_type::f32, {2, 3}, values)};
  const auto done = write_safetensors(folder / "model-00001-of-00001.safetensors", tensors);
  auto shard = nlohmann::ordered_json{
      {"file", "model-00001-of-00001.safetensors"},
      {"bytes", done.bytes},
      {"sha256", done.sha256},
      {"tensors", {{"w", {{"shape", {2, 3}}, {"dtype", "F32"}, {"xxh3", done.xxh3[0]}}}}}};
  nlohmann::ordered_json out = {{"format", "troupe-checkpoint"},
                                {"format_version", 1},
                                {"iteration", 3},
                                {"consumed_samples", 12},
                                {"generation", 1}};
  out["model"] = nlohmann::ordered_json::parse(to_json(tiny_model()));
  out["identity"] = {{"seed", 1234}};
  out["layout"] = nlohmann::ordered_json::object();
  out["shards"] = nlohmann::ordered_json::array({shard});
  out["manifest_sha256"] = std::string(64, '0');
  auto text = out.dump(1) + "\n";
  sha256 hash;
  hash.add(text.data(), text.size());
  text.replace(text.size() - 68, 64, hash.hex());
  write_text(folder / "manifest.json", text);
  const auto reader = open_checkpoint(folder);
  CHECK(reader->manifest().consumed_samples == 12);
  CHECK(reader->extents("w") == shape{2, 3});
  float column[2];
  reader->read("w", box{{0, 1}, {2, 1}}, column);
  CHECK(column[0] == 2);
  CHECK(column[1] == 5);
}
