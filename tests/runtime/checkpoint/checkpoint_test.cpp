#include "runtime/core/error.hpp"
#include "tests/runtime/checkpoint/saved.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <thread>

using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

TEST_CASE("a checkpoint survives a round trip", "[checkpoint]") {
  const scratch_folder dir;
  const auto folder = save(dir.path(), 100);
  CHECK(folder == dir / "iter_0000100");
  CHECK(names_in(dir.path()) == names{"iter_0000100", tracker});
  CHECK(names_in(folder)
        == names{"manifest.json",
                 "model-00001-of-00001.safetensors",
                 "optimizer-00001-of-00001.safetensors"});
  CHECK(read_text(dir / tracker) == "100\n");
  const auto reader = open_checkpoint(folder);
  CHECK(reader->manifest().iteration == 100);
  CHECK(reader->manifest().consumed_samples == 400);
  CHECK(reader->manifest().generation == generation_id{1});
  CHECK(reader->manifest().model == tiny_model());
  CHECK(reader->manifest().identity == R"({"seed":1234})");
  CHECK(reader->manifest().layout == R"({"tensor":1})");
  CHECK(reader->has("exp_avg_sq.a"));
  CHECK_FALSE(reader->has("b"));
  CHECK(reader->extents("a") == shape{8, 8});
  CHECK(has_elements_of(folder, 100));
  std::vector<float> wrong_size(63);
  CHECK_THROWS_WITH(reader->read("a", wrong_size), ContainsSubstring("(8, 8)"));
  CHECK_THROWS_WITH(reader->extents("b"), ContainsSubstring("no tensor 'b'"));
}

TEST_CASE("the same state gives the same checkpoint, byte by byte", "[checkpoint]") {
  const scratch_folder one, two;
  save(one.path(), 3);
  save(two.path(), 3);
  for (const auto& name : names_in(one / "iter_0000003"))
    CHECK(read_text(one / ("iter_0000003/" + name)) == read_text(two / ("iter_0000003/" + name)));
}

TEST_CASE("a save that was not committed leaves no files", "[checkpoint]") {
  const scratch_folder dir;
  save(dir.path(), 1);
  {
    checkpoint_writer writer(dir.path(), 2, generation_id{1});
    const auto a = elements(2);
    const shard_to_write tensors[] = {whole_tensor("a", stored_type::f32, {64}, a.data())};
    writer.write_shard("model-00001-of-00001.safetensors", tensors);
    CHECK(names_in(dir.path()).front() == ".iter_0000002.generation-1.partial");
  }
  CHECK(names_in(dir.path()) == names{"iter_0000001", tracker});
}

TEST_CASE("a save of an ended generation does not become visible", "[checkpoint]") {
  const scratch_folder dir;
  const cancel_token token;
  {
    checkpoint_writer writer(dir.path(), 2, generation_id{1}, token);
    token.cancel();
    checkpoint_manifest manifest;
    manifest.model = tiny_model();
    CHECK_THROWS_AS(writer.commit(manifest), cancelled);
  }
  CHECK(names_in(dir.path()).empty());
}

TEST_CASE("a checkpoint of the same iteration is replaced by the newer one", "[checkpoint]") {
  const scratch_folder dir;
  save(dir.path(), 5);
  {
    checkpoint_writer writer(dir.path(), 5, generation_id{2});
    const auto a = elements(6), b = elements(7);
    const shard_to_write tensors[] = {whole_tensor("a", stored_type::f32, {64}, a.data()),
                                      whole_tensor("exp_avg.a", stored_type::f32, {64}, b.data())};
    checkpoint_manifest manifest;
    manifest.model = tiny_model();
    manifest.shards.push_back(writer.write_shard("all.safetensors", tensors));
    writer.commit(manifest);
  }
  CHECK(names_in(dir.path()) == names{"iter_0000005", tracker});
  CHECK(has_elements_of(dir / "iter_0000005", 6));
}

TEST_CASE("several threads can write shards at the same time", "[checkpoint]") {
  const scratch_folder dir;
  checkpoint_writer writer(dir.path(), 1, generation_id{1});
  checkpoint_manifest manifest;
  manifest.model = tiny_model();
  manifest.shards.resize(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      const auto x = elements(i);
      const shard_to_write tensors[]
          = {whole_tensor("t" + std::to_string(i), stored_type::f32, {64}, x.data())};
      manifest.shards[std::size_t(i)] = writer.write_shard(shard_file("model", i + 1, 4), tensors);
    });
  for (auto& thread : threads)
    thread.join();
  const auto reader = open_checkpoint(writer.commit(manifest));
  for (int i = 0; i < 4; ++i) {
    std::vector<float> x(64);
    reader->read("t" + std::to_string(i), x);
    CHECK(x == elements(i));
  }
}

TEST_CASE("a shard that the manifest lacks breaks a promise", "[checkpoint]") {
  const scratch_folder dir;
  checkpoint_writer writer(dir.path(), 1, generation_id{1});
  writer.write_shard("model-00001-of-00001.safetensors", {});
  CHECK_BREAKS("CHECKPOINT-3", writer.commit(checkpoint_manifest()));
  checkpoint_manifest more;
  more.shards = {{"model-00001-of-00001.safetensors", 0, "", {}}, {"never-written", 0, "", {}}};
  CHECK_BREAKS("CHECKPOINT-7", writer.commit(more));
  CHECK_BREAKS("CHECKPOINT-2", writer.write_shard("model-00001-of-00001.safetensors", {}));
  CHECK_BREAKS("CHECKPOINT-1", checkpoint_writer(dir.path(), -1, generation_id{1}));
  CHECK_THROWS_AS(writer.write_shard("../model.safetensors", {}), input_error);
}

TEST_CASE("a manifest without objects for identity and layout is not written", "[checkpoint]") {
  checkpoint_manifest manifest;
  manifest.model = tiny_model();
  CHECK_NOTHROW(to_json(manifest));
  manifest.layout = "[]";
  CHECK_BREAKS("MANIFEST-1", to_json(manifest));
}

TEST_CASE("damage is reported with its file and its tensor", "[checkpoint]") {
  const scratch_folder dir;
  const auto folder = save(dir.path(), 7);
  flip_byte(folder / "optimizer-00001-of-00001.safetensors", 1);
  const checkpoint_reader reader(folder);
  CHECK_THROWS_WITH(reader.verify(),
                    ContainsSubstring("optimizer-00001-of-00001.safetensors' is damaged in tensor "
                                      "'exp_avg_sq.a'"));
  std::vector<float> out(64);
  CHECK_THROWS_WITH(reader.read("exp_avg_sq.a", out), ContainsSubstring("'exp_avg_sq.a'"));
  reader.read("exp_avg.a", out);
  CHECK(out == elements(8));
}

TEST_CASE("a manifest with a flipped bit is refused", "[checkpoint]") {
  const scratch_folder dir;
  const auto folder = save(dir.path(), 7);
  const auto text = read_text(folder / "manifest.json");
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto changed = text;
    changed[at] = char(changed[at] ^ 1);
    try {
      manifest_from_json(changed, "'it'");
      FAIL_CHECK("accepted with byte " << at << " changed");
    } catch (const input_error&) {
    }
  }
  for (std::size_t size = 0; size < text.size(); ++size)
    CHECK_THROWS_AS(manifest_from_json(text.substr(0, size), "'it'"), input_error);
}

TEST_CASE("shards of two checkpoints cannot be mixed", "[checkpoint]") {
  const scratch_folder dir;
  const auto one = save(dir.path(), 1), two = save(dir.path(), 2);
  fs::copy_file(one / "model-00001-of-00001.safetensors",
                two / "model-00001-of-00001.safetensors",
                fs::copy_options::overwrite_existing);
  CHECK_THROWS_WITH(open_checkpoint(two), ContainsSubstring("is damaged in tensor 'a'"));
  fs::copy_file(one / "optimizer-00001-of-00001.safetensors",
                two / "model-00001-of-00001.safetensors",
                fs::copy_options::overwrite_existing);
  CHECK_THROWS_WITH(open_checkpoint(two), ContainsSubstring("should have"));
  fs::remove(two / "model-00001-of-00001.safetensors");
  CHECK_THROWS_WITH(open_checkpoint(two), ContainsSubstring("No such file"));
}

TEST_CASE("impossible values of the model in a manifest are refused", "[checkpoint]") {
  checkpoint_manifest x;
  x.model = tiny_model();
  x.shards = {{.file = "a.safetensors", .bytes = 1000, .sha256 = std::string(64, '0')}};
  CHECK(manifest_from_json(to_json(x), "'it'") == x);
  for (const std::int64_t layers : {-1, 0, 1'000'000'000}) {
    x.model.as<gpt_config>().layers = layers;
    CHECK_THROWS_WITH(manifest_from_json(to_json(x), "'it'"), ContainsSubstring("its model"));
  }
  x.model = tiny_model();
  x.model.as<gpt_config>().heads = x.model.as<gpt_config>().groups = std::int64_t(1) << 30;
  CHECK_THROWS_WITH(manifest_from_json(to_json(x), "'it'"), ContainsSubstring("its model"));
}

TEST_CASE("an identity can be long, up to a limit", "[checkpoint][unsanitized]") {
  checkpoint_manifest x;
  x.model = tiny_model();
  x.identity = R"({"y":")" + std::string(4'000'000, 'x') + "\"}";
  for (int i = 0; i < 20'000; ++i)
    x.shards.push_back({.file = std::to_string(i), .bytes = 1000, .sha256 = std::string(64, '0')});
  CHECK(manifest_from_json(to_json(x), "'it'") == x);
  x.identity = R"({"y":")" + std::string(4'300'000, 'x') + "\"}";
  CHECK_THROWS_WITH(manifest_from_json(to_json(x), "'it'"), ContainsSubstring("beside 'shards'"));
  x.identity = "{}";
  x.layout = R"({"y":[0)";
  for (int i = 0; i < 2'200'000; ++i)
    x.layout += ",0";
  x.layout += "]}";
  CHECK_THROWS_WITH(manifest_from_json(to_json(x), "'it'"), ContainsSubstring("beside 'shards'"));
}

TEST_CASE("a loss scale survives a manifest, and must be above 0", "[checkpoint]") {
  checkpoint_manifest x;
  x.iteration = 5;
  x.consumed_samples = 40;
  x.model = tiny_model();
  CHECK_THAT(to_json(x), !ContainsSubstring("loss_scale"));
  x.scale = {.value = 0.75, .finite = 3, .hysteresis = -2, .at_minimum = 1};
  CHECK(manifest_from_json(to_json(x), "'it'") == x);
  for (const auto& wrong : {loss_scale{.value = HUGE_VAL},
                            loss_scale{.value = 1, .finite = 6},
                            loss_scale{.value = 1, .finite = -1},
                            loss_scale{.value = 1, .at_minimum = 6}}) {
    x.scale = wrong;
    CHECK_THROWS_WITH(manifest_from_json(to_json(x), "'it'"), ContainsSubstring("'loss_scale'"));
  }
}

TEST_CASE("algorithms of products survive a manifest, if there are any", "[checkpoint]") {
  checkpoint_manifest x;
  x.model = tiny_model();
  CHECK_THAT(to_json(x), !ContainsSubstring("products"));
  x.products = {{"forward bf16 8 x 8 x 8", "00"}, {"backward_input fp32 8 x 8 x 8", "1f"}};
  CHECK(manifest_from_json(to_json(x), "'it'") == x);
}

TEST_CASE("the number of skipped steps survives a manifest, and is limited by the iterations",
          "[checkpoint]") {
  checkpoint_manifest x;
  x.iteration = 5;
  x.consumed_samples = 40;
  x.model = tiny_model();
  CHECK_THAT(to_json(x), !ContainsSubstring("skipped"));
  CHECK(manifest_from_json(to_json(x), "'it'") == x);
  x.skipped = {.iterations = 3, .samples = 24, .nan = 2, .in_a_row = 1};
  CHECK(manifest_from_json(to_json(x), "'it'") == x);
  for (const auto& wrong : {skipped_steps{.iterations = 6},
                            skipped_steps{.iterations = 1, .samples = 41},
                            skipped_steps{.iterations = 1, .nan = 2},
                            skipped_steps{.iterations = 1, .in_a_row = 2}}) {
    x.skipped = wrong;
    CHECK_THROWS_WITH(manifest_from_json(to_json(x), "'it'"), ContainsSubstring("'skipped'"));
  }
}
