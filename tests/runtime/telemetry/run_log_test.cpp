#include "runtime/telemetry/run_log.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;

namespace {

step_report step(std::uint64_t iteration) {
  return {.iteration = iteration,
          .consumed_samples = 8 * iteration,
          .consumed_tokens = 128 * iteration,
          .global_batch_size = 8,
          .loss = 0.1,
          .grad_norm = 0.5,
          .learning_rate = 1e-3,
          .elapsed_ms = 2,
          .tokens_per_second = 64000,
          .flops_per_second = 5e11,
          .state = {1, 2}};
}

const std::string digest_text = "00000000000000010000000000000002";

std::size_t columns_of(std::string_view row) {
  return std::size_t(std::count(row.begin(), row.end(), ',')) + 1;
}

}  // namespace

TEST_CASE("an older table keeps its columns, and every row has them", "[log]") {
  const scratch_folder folder;
  const auto file = folder / "old.csv";
  const std::string before = "iteration,lm_loss,of_another_build,state_digest\r\n1,0.5,7,00\r\n";
  write_text(file, before);
  open_csv_log(file, {.append = true})->write(step(2));
  CHECK(read_text(file) == before + "2,0.1,," + digest_text + "\r\n");
  CHECK(columns_in("iteration,x\r") == std::vector<std::string>{"iteration", "x"});
  CHECK(columns_in("a line of something else") == csv_columns());
  CHECK(columns_in("") == csv_columns());
}

TEST_CASE("a cause with a path that is not UTF-8 is written", "[log]") {
  run_event x;
  x.kind = "restart";
  x.why = "cannot write '/runs/\xff'";
  CHECK(nlohmann::json::parse(json_record(x))["why"] == "cannot write '/runs/\xef\xbf\xbd'");
}

TEST_CASE("a JSON record restores the same doubles and has the requested fields", "[log]") {
  auto x = step(3);
  auto plain = nlohmann::json::parse(json_record(x, {}));
  CHECK(plain["iteration"] == 3);
  CHECK(plain["consumed_tokens"] == 384);
  CHECK(plain["lm_loss"].get<double>() == 0.1);
  CHECK(plain["skipped_iterations"] == 0);
  CHECK(plain["state_digest"] == digest_text);
  for (const auto* absent :
       {"params_norm", "num_zeros", "teraflops_per_second", "share_of_matrix_rate", "loss_scale"})
    CHECK_FALSE(plain.contains(absent));
  x.params_norm = 7;
  x.zero_gradients = 0;
  x.scale.value = 65536;
  x.loss = NAN;
  x.skipped = {.iterations = 2, .nan = 1, .in_a_row = 1};
  const auto all = nlohmann::json::parse(json_record(x, {.throughput = true, .matrix_rate = 1e12}));
  CHECK(all["lm_loss"].is_null());
  CHECK(all["params_norm"] == 7);
  CHECK(all["num_zeros"] == 0);
  CHECK(all["loss_scale"] == 65536);
  CHECK(all["teraflops_per_second"] == 0.5);
  CHECK(all["share_of_matrix_rate"] == 0.5);
  CHECK(all["skipped_iterations"] == 2);
  CHECK(all["nan_iterations"] == 1);
}

TEST_CASE("a row has a cell for every column; missing values are empty", "[log]") {
  const auto header = csv_header();
  auto x = step(3);
  CHECK(csv_row(x, nullptr, {})
        == "3,24,384,0.1,,0.5,0.001,8,2,64000,,,,,,0,0," + digest_text + "\r\n");
  x.params_norm = 7;
  x.zero_gradients = 5;
  x.scale.value = 65536;
  x.grad_norm = HUGE_VAL;
  const validation_report validated{3, 2.25};
  const auto full = csv_row(x, &validated, {.throughput = true, .matrix_rate = 1e12});
  CHECK(full == "3,24,384,0.1,2.25,,0.001,8,2,64000,0.5,0.5,7,5,65536,0,0," + digest_text + "\r\n");
  CHECK(columns_of(header) == columns_of(full));
}

TEST_CASE("several losses have a field and a column each, and one for their sum", "[log]") {
  auto x = step(3);
  x.loss = 4.5;
  x.losses = {{"lm loss", 4}, {"sop loss", NAN}};
  const auto record = json_record(x, {});
  CHECK_THAT(record,
             Catch::Matchers::ContainsSubstring(R"("lm_loss":4.0,"sop_loss":null,"loss":4.5,)"));
  const auto read = read_step_record(record);
  REQUIRE((read && read->losses.size() == 2));
  CHECK(read->loss == 4.5);
  CHECK(read->losses[0] == named_loss{"lm loss", 4});
  const validation_report validated{3, 4.25, false, {{"lm loss", 4}, {"sop loss", 0.5}}};
  CHECK(json_record(validated)
        == R"({"iteration":3,"validation_loss":4.25,"validation_lm_loss":4.0,)"
           R"("validation_sop_loss":0.5})");
  CHECK(read_validation_record(json_record(validated))->losses.size() == 2);
  const std::vector<named_loss> three = {{"lm loss", 4}, {"z_loss", 1}, {"aux_loss", 0.5}};
  const validation_report of_three{3, 4.25, true, three};
  CHECK(read_validation_record(json_record(of_three)) == of_three);
  x.losses = three;
  CHECK(read_step_record(json_record(x, {}))->losses == three);
  x.losses = {{"lm loss", 4}, {"sop loss", NAN}};
  const std::vector<std::string> names = {"lm loss", "sop loss"};
  CHECK(csv_header(names).starts_with(
      "iteration,consumed_samples,consumed_tokens,lm_loss,sop_loss,loss,validation_loss,"
      "validation_lm_loss,validation_sop_loss,grad_norm,"));
  CHECK(csv_row(x, nullptr, {}, csv_columns(names)).starts_with("3,24,384,4,,4.5,,,,0.5,"));
  CHECK(csv_row(x, &validated, {}, csv_columns(names))
            .starts_with("3,24,384,4,,4.5,4.25,4,0.5,0.5,"));
}

TEST_CASE("a model with an accuracy has the best one of validations in its logs", "[log]") {
  const validation_report validated{
      3, 4.25, false, {{"task loss", 4.25}, {"accuracy", 0.5}, {"best accuracy", 0.75}}};
  const auto record = json_record(validated);
  CHECK(record.ends_with(R"("validation_accuracy":0.5,"validation_best_accuracy":0.75})"));
  CHECK(read_validation_record(record)->losses.back() == named_loss{"best accuracy", 0.75});
  auto x = step(3);
  x.losses = {{"task loss", 4}, {"accuracy", 0.25}};
  const auto columns = csv_columns({"task loss", "accuracy"});
  CHECK(std::ranges::find(columns, "validation_best_accuracy") != columns.end());
  CHECK(csv_row(x, &validated, {}, columns).find(",4.25,4.25,0.5,0.75,") != std::string::npos);
}

TEST_CASE("a record of a counted step has the extremes of its experts, and layers on request",
          "[log]") {
  auto x = step(3);
  const auto dense = json_record(x, {.expert_layers = true});
  x.experts = {{.layer = "decoder.layers.1", .most = 5, .least = 2, .entropy = 0.75},
               {.layer = "decoder.layers.2",
                .most = 4,
                .least = 0,
                .dropped = 3,
                .entropy = 0.5,
                .counts = {0, 4}}};
  const auto record = json_record(x, {});
  const std::string extremes = R"("most_expert_rows":5,"least_expert_rows":0,"expert_entropy":0.5,)"
                               R"("dropped_expert_rows":3,)";
  const std::string counts = R"("expert_counts":{"decoder.layers.2":[0,4]},)";
  auto without = record;
  const auto at = without.find(extremes + counts);
  REQUIRE(at != std::string::npos);
  CHECK(without.erase(at, extremes.size() + counts.size()) == dense);
  const auto read = read_step_record(record);
  REQUIRE((read && read->experts.size() == 1));
  CHECK(read->experts.front() == expert_load{.most = 5, .least = 0, .dropped = 3, .entropy = 0.5});
  x.experts.back().counts.clear();
  CHECK_THAT(json_record(x, {.expert_layers = true}),
             ContainsSubstring(
                 extremes
                 + R"("expert_layers":{"decoder.layers.1":{"most":5,"least":2,"entropy":0.75,)"
                   R"("dropped":0},"decoder.layers.2":{"most":4,"least":0,"entropy":0.5,)"
                   R"("dropped":3}},)"));
  CHECK(csv_row(x, nullptr, {}) == csv_row(step(3), nullptr, {}));
}

TEST_CASE("a validation completes the newest row of a table", "[log]") {
  const scratch_folder folder;
  const auto file = folder / "log.csv";
  const auto log = open_csv_log(file, {});
  const auto plain = [](std::uint64_t iteration) { return csv_row(step(iteration), nullptr, {}); };
  log->write(validation_report{1, 3.5});  // of a step of an earlier process
  log->write(step(1));
  CHECK(read_text(file) == csv_header() + plain(1));
  log->write(step(2));
  const validation_report validated{2, 3.5};
  log->write(validation_report{2, 4.5, true});
  log->write(validated);
  auto expected = csv_header() + plain(1) + csv_row(step(2), &validated, {});
  CHECK(read_text(file) == expected);
  log->write(validated);  // a retry
  CHECK(read_text(file) == expected);
  log->write(step(3));
  log->write(validated);  // too late
  CHECK(read_text(file) == expected + plain(3));
}

TEST_CASE("a validation does not change a table that another process has changed", "[log]") {
  const scratch_folder folder;
  const auto file = folder / "log.csv";
  const auto log = open_csv_log(file, {});
  log->write(step(1));
  const auto others = csv_header() + "1,\r\n2,\r\n";
  write_text(file, others);
  log->write(validation_report{1, 3.5});
  CHECK(read_text(file) == others);
}

TEST_CASE("a continued log is appended to; any other starts again", "[log]") {
  const scratch_folder folder;
  const auto json = folder / "log.jsonl", csv = folder / "log.csv";
  for (const bool append : {false, true, false}) {
    open_json_log(json, {.append = append})->write(step(1));
    open_csv_log(csv, {.append = append})->write(step(1));
    const auto once = json_record(step(1), {}) + "\n", row = csv_row(step(1), nullptr, {});
    CHECK(read_text(json) == (append ? once + once : once));
    CHECK(read_text(csv) == csv_header() + (append ? row + row : row));
  }
}

TEST_CASE("lines give their iteration, if they have one", "[log]") {
  CHECK(iteration_of_json(R"({"iteration":12,"lm_loss":1})") == 12);
  for (const auto* none :
       {"", "{}", "12", "[1]", R"({"iteration":-1})", R"({"iteration":"1"})", R"({"iteration":1)"})
    CHECK(iteration_of_json(none) == -1);
  CHECK(iteration_of_row("12,3") == 12);
  for (const auto* none : {"", "iteration,x", "12", ",1", "-"})
    CHECK(iteration_of_row(none) < 0);
}

TEST_CASE("an error of opening or writing a log names it and the reason", "[log]") {
  const scratch_folder folder;
  CHECK_THROWS_WITH(open_json_log(folder / "no" / "log", {}),
                    ContainsSubstring("`watch.log_file`") && ContainsSubstring("No such file"));
  CHECK_THROWS_AS(open_csv_log(folder.path(), {}), io_error);
  CHECK_THROWS_WITH(open_csv_log("/dev/full", {}),
                    ContainsSubstring("`watch.csv_file` '/dev/full': No space left on device"));
}
