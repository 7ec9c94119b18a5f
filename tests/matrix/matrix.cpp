// Compares arrangements of workers and options with the reference trainer.
//
// Then compares models with experts (experts.hpp), and the models of all other families than GPT,
// on stages of any shape (families.hpp). Compares forms of BERT and T5 (forms.hpp) on request.
//
//   matrix               a selection that covers all triples of choices, of experts all pairs (run
//                        by CI)
//   matrix --forms       only the forms of BERT and T5: a selection that covers all pairs
//   matrix --all         all possible arrangements of up to 8 workers; of experts and forms a
//                        selection that covers all triples
//   matrix --only TEXT   those of --all whose row contains TEXT
//   matrix --each N      only the first of every N: for sanitizers
//   matrix --stop        stops at the first failure
//
// Columns for each arrangement:
//   init         its initial weights equal the reference trainer's, bit for bit
//   twice        two runs of 20 steps give the same states, the second one with delays of lanes and
//                messages
//   bits         all states of these runs equal those of the reference trainer on as many tensor
//                ranks
//   loss, norm   the largest difference of steps that begin with the reference trainer's state; the
//                format bounds it (tolerance.hpp)
//   of allowed   the used share of the tolerance
//
// Columns `twice` and `bits` of experts and forms are the same over 6 steps. The expected bits are
// those of the reference trainer on as many ranks; of experts on one worker where these are
// promised (SUMS-1). `loss` and `norm` compare this trainer in f32 with one worker over the same
// steps.

#include "tests/matrix/arrangements.hpp"
#include "tests/matrix/experts.hpp"
#include "tests/matrix/families.hpp"
#include "tests/matrix/forms.hpp"
#include "tests/matrix/tolerance.hpp"
#include "tests/support/scratch_folder.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

using namespace troupe;
using namespace troupe::matrix;

namespace {

using arrays = std::map<std::string, std::vector<float>>;  ///< whole tensors, row-major

/// The steps that are compared: without moments, after the warm-up, with a trained state.
constexpr std::uint64_t compared[] = {1, steps / 2, steps};

/// The reference trainer's run.
struct reference_run {
  std::vector<double> loss, norm;
  struct state {
    runtime::training_position at;
    arrays tensors;  ///< parameters and moments
  };
  std::map<std::uint64_t, state> before;  ///< the state before each step of `compared`
};

/// The states of the reference trainer on the ranks of an arrangement, after each step.
const std::vector<std::string>& states_of(const choice& x) {
  static std::map<choice, std::vector<std::string>> known;
  const choice key = {x[TP], x[rows], x[DP] == 0 ? 0 : 1, x[model], x[tied], x[dropout], x[type]};
  const auto [found, is_new] = known.try_emplace(key);
  if (is_new)
    for (const auto& step : tests::by_reference_trainer(job_of(x)))
      found->second.push_back(to_string(step.state));
  return found->second;
}

/// A run with actors, read from its log.
struct actors_run {
  std::vector<double> loss, norm;
  std::vector<std::string> digest;
  arrays initial;  ///< parameters
};

void add(const std::vector<runtime::state_shard>& parts, arrays& to) {
  for (const auto& x : parts) {
    auto& all = to[x.name];
    all.resize(std::size_t(x.whole.size()));
    copy_common(x.part, x.elements.data(), runtime::whole(x.whole), all.data(), sizeof(float));
  }
}

const reference_run& reference_of(const choice& x) {
  static std::map<choice, reference_run> known;
  const choice key = {x[DP] == 0 ? 0 : 1, x[model], x[tied], x[dropout], x[type]};
  const auto [found, is_new] = known.try_emplace(key);
  auto& out = found->second;
  if (!is_new)
    return out;
  const auto job = job_of(x);
  runtime::stream stream(job.backend, 1, {});
  runtime::reference_trainer trainer(
      job.training, std::make_shared<tests::formula_source>(job.training, true), stream);
  for (std::uint64_t step = 1; step <= steps; ++step) {
    if (std::find(std::begin(compared), std::end(compared), step) != std::end(compared)) {
      auto& state = out.before[step];
      state.at = trainer.position();
      add(trainer.state().parameters(), state.tensors);
      add(trainer.state().moments(), state.tensors);
    }
    const auto report = trainer.step();
    out.loss.push_back(report.loss);
    out.norm.push_back(report.grad_norm);
  }
  return out;
}

/// Throws if the run fails.
actors_run run(const std::shared_ptr<actors::prepared_job>& prepared) {
  actors_run out;
  const auto end = actors::run(prepared);
  if (end.exit_code != 0)
    throw runtime::input_error("{}", end.reason);
  std::ifstream in(prepared->opened().job.watch.log_file);
  for (std::string line; std::getline(in, line);) {
    const auto step = nlohmann::json::parse(line);
    out.loss.push_back(step["lm_loss"]);
    out.norm.push_back(step["grad_norm"]);
    out.digest.push_back(step["state_digest"]);
  }
  return out;
}

/// Runs all steps from initial weights.
actors_run run_freely(runtime::training_job job, bool delayed) {
  const tests::scratch_folder folder;
  job.watch.log_file = folder / "log.jsonl";
  if (delayed)
    job.faults = {.seed = 11, .lane_delay_us = 100, .message_delay_us = 100};
  const auto prepared = tests::tiny_prepared(job);
  std::mutex mutex;
  arrays initial;
  prepared->node->restore = [&](runtime::worker& by) {  // only reads
    const std::lock_guard lock(mutex);
    add(by.parameters(), initial);
  };
  auto out = run(prepared);
  out.initial = std::move(initial);
  return out;
}

/// Runs one step from the reference trainer's state before it.
actors_run run_step(const choice& x, std::uint64_t step, const reference_run::state& from) {
  const tests::scratch_folder folder;
  auto job = job_of(x);
  job.train_iterations = step;
  job.watch.log_file = folder / "log.jsonl";
  const auto prepared = tests::tiny_prepared(job);
  prepared->description.iteration = from.at.iteration;
  prepared->description.consumed = from.at.consumed;
  prepared->description.skipped = from.at.skipped;
  prepared->description.scale = from.at.scale;
  prepared->node->restore = [&from](runtime::worker& by) {
    by.restore([&from](const runtime::state_shard& to) { fill(to, from.tensors.at(to.name)); },
               true);
  };
  return run(prepared);
}

bool same_bits(const arrays& expected, const arrays& found) {
  for (const auto& [name, x] : found) {
    const auto y = expected.find(name);
    if (y == expected.end() || x.size() != y->second.size()
        || std::memcmp(x.data(), y->second.data(), x.size() * sizeof(float)) != 0)
      return false;
  }
  return !found.empty();
}

double relative(double expected, double found) {
  return std::abs(found - expected) / std::max(std::abs(expected), 1e-30);
}

/// The largest differences over the compared steps.
tolerance differences(const choice& x, const reference_run& expected) {
  tolerance out;
  for (const auto& [step, state] : expected.before) {
    const auto found = run_step(x, step, state);
    runtime::ensure(found.loss.size() == 1, "a run of one step logs one step");
    out.loss = std::max(out.loss, relative(expected.loss[step - 1], found.loss[0]));
    out.norm = std::max(out.norm, relative(expected.norm[step - 1], found.norm[0]));
  }
  return out;
}

const char* told(bool same) {
  return same ? "same" : "OTHER";
}

bool judge(const choice& x, double& used) {
  try {
    const auto& expected = reference_of(x);
    const auto once = run_freely(job_of(x), false);
    const auto again = run_freely(job_of(x), true);
    const bool weights = same_bits(expected.before.at(1).tensors, once.initial);
    const bool repeated = once.digest == again.digest && once.digest.size() == steps;
    const bool exact = once.digest == states_of(x);
    const auto allowed = tolerance_of(job_of(x));
    const auto found = differences(x, expected);
    const double share = std::max(found.loss / allowed.loss, found.norm / allowed.norm);
    used = std::max(used, share);
    const bool good = weights && repeated && exact && share <= 1;
    std::printf("%s  %-5s  %-5s  %-5s  %.1e  %.1e  %7.1f %%  %s\n",
                arrangements().text(x).c_str(),
                told(weights),
                told(repeated),
                told(exact),
                found.loss,
                found.norm,
                share * 100,
                good ? "ok" : "FAILED");
    return good;
  } catch (const std::exception& failure) {
    std::printf("%s  FAILED: %s\n", arrangements().text(x).c_str(), failure.what());
    return false;
  }
}

bool judge(const family_arrangement& x) {
  try {
    const auto once = run_freely(x.job, false), again = run_freely(x.job, true);
    std::vector<std::string> expected;
    for (const auto& step : tests::by_reference_trainer(x.job))
      expected.push_back(to_string(step.state));
    const bool repeated = once.digest == again.digest,
               exact
               = once.digest == expected && expected.size() == std::size_t(x.job.train_iterations);
    std::printf("%-64s  %-5s  %-5s  %s\n",
                x.name.c_str(),
                told(repeated),
                told(exact),
                repeated && exact ? "ok" : "FAILED");
    return repeated && exact;
  } catch (const std::exception& failure) {
    std::printf("%s  FAILED: %s\n", x.name.c_str(), failure.what());
    return false;
  }
}

/// States, losses and norms of a reference trainer after each step.
struct judged_run {
  std::vector<std::string> states;
  std::vector<double> loss, norm;

  explicit judged_run(const runtime::training_job& job) {
    for (const auto& step : tests::by_reference_trainer(job)) {
      states.push_back(to_string(step.state));
      loss.push_back(step.loss);
      norm.push_back(step.grad_norm);
    }
  }
};

/// The reference trainer of a job, on its ranks.
const judged_run& judged(const runtime::training_job& job) {
  static std::map<std::string, judged_run> known;
  const auto on = tests::reference_layout_of(job);
  const auto key = fmt::format("{} {} {} {} {} {} {} {} {} {}",
                               runtime::to_json(job.training.model),
                               to_string(job.training.precision),
                               job.training.batch.data_parallel,
                               job.training.batch.micro,
                               on.tensor,
                               on.sequence_parallel,
                               on.data,
                               on.expert,
                               on.expert_tensor,
                               int(on.expert_sums));
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, job).first->second;
}

/// Judges a row of a table. `bits`: the job whose reference trainer has the expected bits. `alone`:
/// the same model and batch on one worker, with losses and norms that differ by at most `allowed`.
bool judge(const std::string& row,
           const runtime::training_job& job,
           const runtime::training_job& bits,
           const runtime::training_job& alone,
           tolerance allowed) {
  if (const auto wrong = runtime::validate(job); !wrong.empty())
    throw runtime::input_error("{}", wrong.front());
  const auto once = run_freely(job, false), again = run_freely(job, true);
  const auto& expected = judged(bits);
  const bool repeated = once.digest == again.digest;
  const bool exact = once.digest == expected.states && once.norm == expected.norm
                     && expected.states.size() == std::size_t(job.train_iterations);
  tolerance found;
  if (job.training.precision == runtime::dtype::f32) {  // narrow types round more
    const auto& one = judged(alone);
    for (std::size_t i = 0; i < one.loss.size(); ++i) {
      found.loss = std::max(found.loss, relative(one.loss[i], expected.loss[i]));
      found.norm = std::max(found.norm, relative(one.norm[i], expected.norm[i]));
    }
  }
  const bool good = repeated && exact && found.loss <= allowed.loss && found.norm <= allowed.norm;
  std::printf("%s  %-5s  %-5s  %.1e  %.1e  %s\n",
              row.c_str(),
              told(repeated),
              told(exact),
              found.loss,
              found.norm,
              good ? "ok" : "FAILED");
  return good;
}

/// The promise for other ranks is ten times the largest differences seen (layouts.md). With rows on
/// the wrong rank losses differ by 1e-5.
bool judge_experts(const choice& x) {
  const auto job = experts::job_of(x);
  return judge(experts::arrangements().text(x),
               job,
               experts::judge_of(job),
               experts::on_one_worker(job),
               {.loss = 1e-6, .norm = 2e-5});
}

/// The bounds are those of the golden runs (tests/golden/bert, tests/golden/t5).
bool judge_form(const choice& x) {
  const auto job = forms::job_of(x);
  return judge(forms::arrangements().text(x),
               job,
               tests::with_copies_as_replicas(job),
               experts::on_one_worker(job),
               {.loss = 1e-5, .norm = 1e-4});
}

struct wish {
  bool all = false, stop = false, forms = false;
  int each = 1;
  std::string only;
};

/// Counts judged arrangements.
struct tally {
  int failed = 0, done = 0, seen = 0;

  bool is_over(const wish& of) const { return of.stop && failed > 0; }
  /// True if the arrangement with this row is to be judged.
  bool takes(const wish& of, const std::string& row) {
    return !is_over(of) && row.find(of.only) != std::string::npos && seen++ % of.each == 0;
  }
  void add(bool good) {
    failed += good ? 0 : 1;
    ++done;
    std::fflush(stdout);
  }
};

void judge_families(const wish& what, tally& to) {
  for (const auto* family : tests::test_families()) {
    std::printf("%-64s  twice  bits\n", std::string(family->name()).c_str());
    for (const auto& x : family_arrangements(*family))
      if ((what.all || x.selected) && to.takes(what, x.name))
        to.add(judge(x));
  }
}

void judge_table(const choice_table& table,
                 bool (*judge_row)(const choice&),
                 const wish& what,
                 tally& to) {
  std::printf("%s  twice  bits   loss     norm\n", table.heading().c_str());
  for (const auto& x : table.covering(what.all ? 3 : 2)) {
    const auto row = table.text(x);
    if (!to.takes(what, row))
      continue;
    try {
      to.add(judge_row(x));
    } catch (const std::exception& failure) {
      std::printf("%s  FAILED: %s\n", row.c_str(), failure.what());
      to.add(false);
    }
  }
}

/// GPTs against the reference trainer. Returns the largest used share of the tolerance.
double judge_gpts(const wish& what, tally& to) {
  const auto& table = arrangements();
  std::printf("%s  init   twice  bits   loss     norm     of allowed\n", table.heading().c_str());
  double used = 0;
  for (const auto& x : what.all ? table.every() : table.covering(3))
    if (to.takes(what, table.text(x)))
      to.add(judge(x, used));
  return used;
}

}  // namespace

int main(int argc, char** argv) {
  wish what;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--all") {
      what.all = true;
    } else if (word == "--forms") {
      what.forms = true;
    } else if (word == "--stop") {
      what.stop = true;
    } else if (word == "--each" && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      what.each = std::atoi(argv[++i]);
    } else if (word == "--only" && i + 1 < argc) {
      what.only = argv[++i];
      what.all = true;
    } else {
      std::fprintf(stderr, "usage: matrix [--forms] [--all | --only TEXT] [--each N] [--stop]\n");
      return 2;
    }
  }
  tally all;
  double used = 0;
  if (!what.forms) {
    used = judge_gpts(what, all);
    judge_table(experts::arrangements(), judge_experts, what, all);
    judge_families(what, all);
  }
  if (what.forms || what.all)
    judge_table(forms::arrangements(), judge_form, what, all);
  std::printf("%d arrangements, %d failed; at most %.1f %% of the tolerance was used\n",
              all.done,
              all.failed,
              used * 100);
  return all.failed == 0 && all.done > 0 ? 0 : 1;
}
