// Fuzzes ledger.jsonl in the folder of a run.

#include "runtime/state/step_ledger.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  const auto file = fuzz::folder() / "seed.jsonl";
  {
    step_ledger x;
    x.write_down(file);
    x.begin({.iteration = 3, .consumed = 24, .scale = {65536, 1, 2, 0}});
    x.keepers({1, 0});
    x.avoid({1, 0});
    x.commit({{4, 32, {}, {}}, {4, 5}, {}});
    x.tell(step_report{
        .iteration = 4, .consumed_samples = 32, .global_batch_size = 8, .state = {4, 5}});
    x.replay({{4, 32, {}, {}}, {4, 5}, {}});
    x.tell(run_event{.iteration = 4, .kind = "restart", .who = "stage:0.1", .seconds = 0.5});
    x.add({1, "stage:0.1", 5});
    x.keep_position({.iteration = 4, .consumed = 32});
    x.saved(4);
    x.validated(4);
    x.tell(validation_report{.iteration = 4, .loss = 2.5});
    x.tested();
    x.drain("Ctrl-C");
  }
  return {fuzz::get(file)};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"begun\"",
          "\"committed\"",
          "\"told\"",
          "\"step\"",
          "null",
          "-1",
          "1e999",
          "18446744073709551615",
          "18446744073709551616",
          "[[[[",
          "{}",
          "[]",
          "\n",
          "\"nan\""};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = fuzz::folder() / "ledger.jsonl";
  fuzz::put(file, fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const auto all = read_ledger(file);
    complaints_of(all);
    for (const auto& one : all)
      fuzz::require(text_of(read_ledger_record(text_of(one), "it")) == text_of(one),
                    "a record survives a round trip");
  });
  return 0;
}
