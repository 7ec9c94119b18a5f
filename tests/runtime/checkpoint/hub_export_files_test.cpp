#include "kernels/op/bf16.hpp"
#include "kernels/op/f16.hpp"
#include "runtime/checkpoint/hub.hpp"
#include "runtime/checkpoint/hub_export.hpp"
#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/runtime/checkpoint/hub_exports.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::llama;
using troupe::tests::numbered;
using troupe::tests::scratch_folder;
using troupe::tests::with_experts;
namespace fs = std::filesystem;

TEST_CASE("large models are split into several files with an index", "[checkpoint]") {
  const scratch_folder dir;
  auto x = llama();
  x.qkv_bias = true;
  hub_export what{.model = x};
  write_hub_model(dir / "one", what, numbered);
  what.shard_bytes = 500;
  std::uint64_t told = 0;
  write_hub_model(dir / "many", what, numbered, [&](auto done) { told = done; });
  CHECK(told == hub_bytes(what));
  CHECK(told == std::uint64_t(4 * parameter_count(x)));
  const auto index
      = nlohmann::json::parse(read_text(dir / "many" / "model.safetensors.index.json"));
  CHECK(index["metadata"]["total_size"] == told);
  std::set<std::string> files;
  for (const auto& [name, file] : index["weight_map"].items())
    files.insert(file.get<std::string>());
  CHECK(files.size() > 3);
  const auto one = read_hub_model(dir / "one"), many = read_hub_model(dir / "many");
  for (const auto& parameter : one.parameters()) {
    INFO(parameter.name);
    std::vector<float> a(std::size_t(parameter.extents.size())), b = a, c = a;
    one.read(parameter.name, a);
    many.read(parameter.name, b);
    numbered(parameter.name, whole(parameter.extents), c);
    CHECK(a == c);
    CHECK(b == c);
  }
}

TEST_CASE("elements are rounded to bfloat16 on request", "[checkpoint]") {
  const scratch_folder dir;
  write_hub_model(dir / "out", {.model = llama(), .type = stored_type::bf16}, numbered);
  const auto model = read_hub_model(dir / "out");
  const std::string name = "decoder.layers.1.mlp.linear_fc2.weight";
  std::vector<float> read(std::size_t(model.extents(name).size())), exact = read;
  model.read(name, read);
  numbered(name, whole(model.extents(name)), exact);
  for (std::size_t i = 0; i < read.size(); ++i)
    CHECK(read[i] == float(troupe::kernels::bf16(exact[i])));
  CHECK(nlohmann::json::parse(read_text(dir / "out" / "config.json"))["torch_dtype"] == "bfloat16");
  CHECK_BREAKS(
      "HUB-3",
      write_hub_model(dir / "i32", {.model = llama(), .type = stored_type::i32}, numbered));
}

TEST_CASE("a bias that balances the choice of experts is exported as it is", "[checkpoint]") {
  const scratch_folder dir;
  const auto x = with_experts("deepseek_v3");
  const auto thirds = [](const auto&, const auto&, std::span<float> to) {
    std::fill(to.begin(), to.end(), 1.0F / 3);
  };
  const hub_export what{.model = x, .type = stored_type::bf16};
  write_hub_model(dir / "out", what, thirds);
  const safetensors_file file(dir / "out" / "model.safetensors");
  std::uint64_t bytes = 0;
  for (const auto& tensor : file.tensors()) {
    CAPTURE(tensor.name);
    const bool is_bias = tensor.name.ends_with("e_score_correction_bias");
    CHECK(tensor.type == (is_bias ? stored_type::f32 : stored_type::bf16));
    bytes += file.bytes(tensor).size();
  }
  CHECK(bytes == hub_bytes(what));
  std::vector<float> bias(std::size_t(x.experts.number));
  read_hub_model(dir / "out").read("decoder.layers.1.mlp.router.expert_bias", bias);
  CHECK(bias == std::vector<float>(bias.size(), 1.0F / 3));
}

TEST_CASE("elements are rounded to float16 on request, and larger ones are refused",
          "[checkpoint]") {
  const scratch_folder dir;
  hub_export what{.model = llama(), .type = stored_type::f16};
  const std::string name = "decoder.layers.1.mlp.linear_fc2.weight";
  float factor = 1;
  const auto source = [&](const std::string& parameter, const box& part, std::span<float> to) {
    numbered(parameter, part, to);
    for (auto& x : to)
      x *= factor;
  };
  write_hub_model(dir / "out", what, source);
  const auto model = read_hub_model(dir / "out");
  std::vector<float> read(std::size_t(model.extents(name).size())), exact = read;
  model.read(name, read);
  source(name, whole(model.extents(name)), exact);
  for (std::size_t i = 0; i < read.size(); ++i)
    CHECK(read[i] == float(troupe::kernels::f16(exact[i])));
  CHECK(nlohmann::json::parse(read_text(dir / "out" / "config.json"))["torch_dtype"] == "float16");
  factor = 1e5F;
  CHECK_THROWS_WITH(write_hub_model(dir / "large", what, source),
                    ContainsSubstring("beyond float16") && ContainsSubstring("bfloat16"));
  CHECK_FALSE(std::filesystem::exists(dir / "large"));
}

TEST_CASE("gains that are stored minus one are exported in full", "[checkpoint]") {
  const scratch_folder dir;
  auto x = llama();
  x.gain_offset = 1;
  write_hub_model(dir / "out", {.model = x}, [](const auto&, const auto&, std::span<float> to) {
    std::fill(to.begin(), to.end(), 0.25F);
  });
  const auto model = read_hub_model(dir / "out");
  CHECK(model.config().as<gpt_config>().gain_offset == 0);
  std::vector<float> gain(8), weight(8 * 12);
  for (const auto* name : {"decoder.final_layernorm.weight",
                           "decoder.layers.0.input_layernorm.weight",
                           "decoder.layers.1.pre_mlp_layernorm.weight"}) {
    model.read(name, gain);
    CHECK(gain == std::vector<float>(8, 1.25F));
  }
  model.read("decoder.layers.1.mlp.linear_fc2.weight", weight);
  CHECK(weight == std::vector<float>(8 * 12, 0.25F));
}

TEST_CASE("a folder with files is refused as output, and a failure leaves no folder",
          "[checkpoint]") {
  const scratch_folder dir;
  fs::create_directory(dir / "out");
  write_text(dir / "out" / "mine.txt", "mine");
  CHECK_THROWS_AS(write_hub_model(dir / "out", {.model = llama()}, numbered), input_error);
  CHECK(read_text(dir / "out" / "mine.txt") == "mine");
  CHECK_THROWS_AS(write_hub_model(dir / "new",
                                  {.model = llama()},
                                  [](const auto&, const auto&, auto) {
                                    throw input_error("the checkpoint is damaged");
                                  }),
                  input_error);
  CHECK(std::distance(fs::directory_iterator(dir.path()), {}) == 1);
  // Leftovers of killed processes: one a day old, one with this process's pid; and a user's folder.
  const auto old = fs::file_time_type::clock::now() - surely_dead - std::chrono::hours(1);
  for (const auto& part : {dir / ".slash.partial-7",
                           dir / fmt::format(".slash.partial-{}", ::getpid()),
                           dir / "slash.partial-8"}) {
    fs::create_directory(part);
    write_text(part / "old.safetensors", "half");
    fs::last_write_time(part / "old.safetensors", old);
    fs::last_write_time(part, old);
  }
  write_hub_model((dir / "slash").string() + "/", {.model = llama()}, numbered);
  CHECK(fs::exists(dir / "slash" / "config.json"));
  CHECK_FALSE(fs::exists(dir / "slash" / "old.safetensors"));
  CHECK(fs::exists(dir / "slash.partial-8" / "old.safetensors"));
  CHECK(std::distance(fs::directory_iterator(dir.path()), {}) == 3);
  fs::create_directory(dir / "empty");
  write_hub_model(dir / "empty", {.model = llama()}, numbered);
  CHECK(fs::exists(dir / "empty" / "config.json"));
  // A process on another host with the same pid may be writing there now.
  const auto another = dir / fmt::format(".shared.partial-{}", ::getpid());
  fs::create_directory(another);
  write_text(another / "half.safetensors", "half");
  write_hub_model(dir / "shared", {.model = llama()}, numbered);
  CHECK(fs::exists(another / "half.safetensors"));
  CHECK(fs::exists(dir / "shared" / "config.json"));
  CHECK_FALSE(fs::exists(dir / "shared" / "half.safetensors"));
}

TEST_CASE("an export locks its folder, also if the parent folder is new", "[checkpoint]") {
  const scratch_folder dir;
  int refused = 0;
  write_hub_model(dir / "new/model",
                  {.model = llama()},
                  [&](const std::string& name, const box& part, std::span<float> to) {
                    if (refused++ == 0)
                      CHECK_THROWS_WITH(
                          write_hub_model(dir / "new/model", {.model = llama()}, numbered),
                          ContainsSubstring("is writing there"));
                    numbered(name, part, to);
                  });
  CHECK(refused > 0);
  CHECK(fs::exists(dir / "new/model/config.json"));
}

TEST_CASE("an export says which token begins an answer", "[checkpoint]") {
  const scratch_folder dir;
  hub_export what{.model = llama(), .decoder_start = 5};
  write_hub_model(dir / "out", what, numbered);
  const auto config = nlohmann::json::parse(read_text(dir / "out" / "config.json"));
  CHECK(config.at("decoder_start_token_id") == 5);
  what.decoder_start.reset();
  write_hub_model(dir / "none", what, numbered);
  CHECK(read_text(dir / "none" / "config.json").find("decoder_start") == std::string::npos);
}
