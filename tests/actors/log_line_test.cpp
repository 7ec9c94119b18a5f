#include "actors/monitor/log_line.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::vector<runtime::loss_spec> model_losses
    = {{.name = "lm loss", .has_perplexity = true},
       {.name = "sop loss", .weight = 0.5, .has_perplexity = true},
       {.name = "load_balancing_loss", .weight = 0.01}};

std::string evaluation_line(const runtime::validation_report& x, bool is_short) {
  return actors::evaluation_line(x, model_losses, is_short);
}

}  // namespace

TEST_CASE("the summary of a schedule has the mean of the logged steps", "[actors]") {
  actors::pipeline_since_start all;
  all.add({.ms = 8, .planned_ms = 6, .bubble = 0.25, .planned_bubble = 0.125, .worst_late_ms = 3});
  all.add({.ms = 12, .planned_ms = 8, .bubble = 0.75, .planned_bubble = 0.375, .worst_late_ms = 2});
  const auto line = actors::pipeline_line(all, "1f1b");
  CHECK_THAT(line, ContainsSubstring("schedule 1f1b: bubble 50.0 %, planned 25.0 %"));
  CHECK_THAT(line, ContainsSubstring("a step's actions take 10.0 ms, planned 7.0"));
  CHECK_THAT(line, ContainsSubstring("of the 2 steps"));
  CHECK_THAT(actors::pipeline_details(all), ContainsSubstring("at most 3.00;"));
}

TEST_CASE("a short line fits 80 columns with any numbers", "[actors]") {
  runtime::step_report x{.iteration = 100,
                         .loss = 4.909,
                         .grad_norm = 1.0334,
                         .learning_rate = 6.7e-4,
                         .elapsed_ms = 4,
                         .tokens_per_second = 64000};
  actors::since_last_line since;
  since.add(x);
  CHECK(actors::short_line(x, since, 300, {})
        == " iter 100/300  loss 4.9090  norm 1.033  lr 6.700E-04  64000 tokens/s  4.0 ms");
  x.flops_per_second = 1.5e12;
  const auto asked = actors::short_line(x, since, 300, {.throughput = true, .matrix_rate = 3e12});
  CHECK_THAT(asked, ContainsSubstring("1.500 TFLOP/s  MFU 50.0 %"));
  CHECK(asked.size() < 80);
  x = {.iteration = 123456789,
       .loss = 1e30,
       .grad_norm = 1e20,
       .learning_rate = 1e-300,
       .elapsed_ms = 1e9,
       .tokens_per_second = 1e15};
  since.add(x);
  CHECK(actors::short_line(x, since, 1234567890, {}).size() < 80);
  x = {.iteration = 2, .skipped = {.iterations = 1, .in_a_row = 1}};
  actors::since_last_line skipped;
  skipped.add(x);
  CHECK_THAT(actors::short_line(x, skipped, 3, {}), ContainsSubstring("iter 2/3  skipped 1  lr"));
}

TEST_CASE("a line has the mean of each loss over the steps in which it counts", "[actors]") {
  runtime::step_report x{.iteration = 1, .loss = 5, .losses = {{"lm loss", 4}, {"sop loss", 2}}};
  actors::since_last_line since;
  since.add(x);
  x.losses = {{"lm loss", 5}, {"sop loss", NAN}};
  since.add(x);
  CHECK_THAT(actors::log_line(x, since, 2, {}),
             ContainsSubstring(" | lm loss: 4.500000E+00 | sop loss: 2.000000E+00 | "));
  const runtime::validation_report validated{2, 5, false, {{"lm loss", 4}, {"sop loss", 1}}};
  CHECK_THAT(evaluation_line(validated, false),
             ContainsSubstring("| lm loss PPL: 5.459815E+01 | sop loss value: 1.000000E+00 |"));
}

TEST_CASE("steps in which no token counts are left out of the mean loss", "[actors]") {
  runtime::step_report x{.iteration = 1, .loss = 5};
  actors::since_last_line since;
  since.add(x);
  x.iteration = 2;
  x.loss = NAN;
  since.add(x);
  CHECK_THAT(actors::short_line(x, since, 2, {}), ContainsSubstring("loss 5.0000"));
  CHECK_THAT(actors::log_line(x, since, 2, {}),
             ContainsSubstring("lm loss: 5.000000E+00 |")
                 && ContainsSubstring("number of nan iterations:   0"));
  actors::since_last_line nothing;
  nothing.add(x);
  CHECK_THAT(actors::short_line(x, nothing, 2, {}), !ContainsSubstring("loss"));
  CHECK_THAT(actors::log_line(x, nothing, 2, {}), !ContainsSubstring("lm loss"));
}

TEST_CASE("a validation in which no token counts has no loss and no perplexity", "[actors]") {
  CHECK(evaluation_line({7, NAN, false}, GENERATE(false, true))
        == " validation at iteration 7: no loss: no token of its samples counts");
}

TEST_CASE("a loss that is no likelihood has no perplexity", "[actors]") {
  runtime::validation_report x{7, 1.01, false};
  x.losses = {{"lm loss", 1.0}, {"load_balancing_loss", 1.0}};
  CHECK(evaluation_line(x, true)
        == " validation at iteration 7  lm loss 1.0000  perplexity 2.718  load_balancing_loss "
           "1.0000");
  CHECK(evaluation_line(x, false)
        == " validation loss at iteration 7 | lm loss value: 1.000000E+00 | lm loss PPL: "
           "2.718282E+00 | load_balancing_loss value: 1.000000E+00 |");
}

TEST_CASE("a validation shows the losses whose tokens count", "[actors]") {
  runtime::validation_report x{7, NAN, false};
  x.losses = {{"lm loss", NAN}, {"sop loss", 1.0}};
  CHECK(evaluation_line(x, true)
        == " validation at iteration 7  sop loss 1.0000  perplexity 2.718");
}

TEST_CASE("a test is distinguished from a validation", "[actors]") {
  CHECK(evaluation_line({7, 1.0, true}, false)
        == " validation loss at iteration 7 on test set | lm loss value: 1.000000E+00 | lm loss "
           "PPL: 2.718282E+00 |");
  CHECK(evaluation_line({7, 1.0, false}, true)
        == " validation at iteration 7  loss 1.0000  perplexity 2.718");
  CHECK(evaluation_line({7, 1.0, true}, true)
        == " test at iteration 7  loss 1.0000  perplexity 2.718");
}

TEST_CASE("a process that is replaced for wrong bits is not reported as dead", "[actors]") {
  const auto* const why = GENERATE("STEP-2: ranks with equal parameters vote",
                                   "VERIFY-2: a pass that is computed again has the bits",
                                   "replica:0: STEP-6: what several tensor ranks hold");
  runtime::run_event x{.iteration = 7,
                       .kind = "restart",
                       .who = "process:1",
                       .why = std::string("process:1: ") + why,
                       .from = "keeper",
                       .resumed = 7,
                       .seconds = 0.5,
                       .verdict = "wrong bits"};
  CHECK(actors::event_line(x)
        == std::string("process:1 is replaced (") + why
               + "); after 0.500 s the run continues from iteration 7 with a peer's copy of the state");
  x.verdict.clear();
  CHECK_THAT(actors::event_line(x), ContainsSubstring("process:1 died ("));
}

TEST_CASE("a restarted run reports the loss of the previous one", "[actors]") {
  CHECK(actors::event_line({.iteration = 8,
                            .kind = "restart",
                            .who = "the run before",
                            .why = "all its processes are lost",
                            .from = "local disk",
                            .resumed = 8,
                            .seconds = 0.5})
        == "the run before is gone (all its processes are lost); after 0.500 s the run continues "
           "from iteration 8 from the local disk");
}

TEST_CASE("a repeated step and values that are not finite are reported as such", "[actors]") {
  CHECK(actors::event_line({.iteration = 3,
                            .kind = "rerun",
                            .who = "step 4",
                            .why = "the loss of replica 1 is nan: not finite",
                            .from = "estate",
                            .resumed = 3,
                            .seconds = 0.5})
        == "step 4 runs again (the loss of replica 1 is nan: not finite); after 0.500 s the run "
           "continues from iteration 3 with its ranks' own state");
  CHECK(actors::event_line({.iteration = 3,
                            .kind = "not finite",
                            .who = "stage:1.0",
                            .why = "step 4: it is nan",
                            .verdict = "reproducible"})
        == "not finite on stage:1.0: reproducible (step 4: it is nan)");
}

TEST_CASE("a move is reported as a move, not as a death", "[actors]") {
  CHECK(actors::event_line({.iteration = 8,
                            .kind = "move",
                            .who = "process:1",
                            .why = "process:1: the node at b:7000 has room for it",
                            .from = "keeper",
                            .resumed = 7,
                            .seconds = 0.5})
        == "process:1 moves (the node at b:7000 has room for it); after 0.500 s the run continues "
           "from iteration 7 with a peer's copy of the state, 1 iteration run again");
}

TEST_CASE("the line of a counted step has the extremes of its experts", "[actors]") {
  runtime::step_report x{.iteration = 1, .loss = 5};
  actors::since_last_line since;
  since.add(x);
  CHECK_THAT(actors::log_line(x, since, 2, {}), !ContainsSubstring("expert"));
  x.experts = {{.layer = "decoder.layers.1", .most = 5, .least = 2, .entropy = 0.75},
               {.layer = "decoder.layers.2", .most = 4, .least = 0, .dropped = 3, .entropy = 0.5}};
  CHECK_THAT(actors::log_line(x, since, 2, {}),
             ContainsSubstring(
                 " | rows of an expert: 0 to 5 | expert entropy: 0.5000 | dropped rows: 3 | "));
}

TEST_CASE("the best accuracy of validations is told, and tests do not count", "[monitor]") {
  std::optional<runtime::validation_report> best;
  const auto told = [&](std::uint64_t iteration, double accuracy, bool test = false) {
    return actors::best_line({iteration, 0.5, test, {{"task loss", 0.5}, {"accuracy", accuracy}}},
                             best);
  };
  CHECK(told(10, 0.5) == " best accuracy on validation: 50.0000 % at iteration 10");
  CHECK(told(20, 0.75) == " best accuracy on validation: 75.0000 % at iteration 20");
  CHECK(told(30, 0.75) == " best accuracy on validation: 75.0000 % at iteration 20");
  CHECK(told(40, 0.9, true).empty());
  CHECK(told(50, NAN).empty());
  CHECK(actors::best_line({60, 0.5, false}, best).empty());
}

TEST_CASE("a validation has the best accuracy so far, which its own line leaves out", "[monitor]") {
  std::optional<double> best;
  const auto reported = [&](double accuracy, bool test = false) {
    runtime::validation_report out{10, 0.5, test, {{"task loss", 0.5}, {"accuracy", accuracy}}};
    runtime::add_best_accuracy(out, best);
    return out;
  };
  CHECK(reported(0.75).losses.back() == runtime::named_loss{"best accuracy", 0.75});
  const auto worse = reported(0.5);
  CHECK(worse.losses.back() == runtime::named_loss{"best accuracy", 0.75});
  CHECK(reported(0.9, true).losses.size() == 2);
  CHECK(reported(NAN).losses.size() == 2);
  CHECK(best == 0.75);
  for (const bool is_short : {false, true})
    CHECK_THAT(actors::evaluation_line(worse, {}, is_short), !ContainsSubstring("best"));
}
