// Counters of a server, as a page for Prometheus.

#pragma once

#include "messages/inference/serving.hpp"
#include "runtime/watch/metrics_page.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace troupe::actors {

struct server_counts {
  std::map<std::pair<std::string, int>, std::uint64_t> answers = {};  ///< by path and status
  std::uint64_t prompt_tokens = 0, generated_tokens = 0, cached_tokens = 0, cancelled = 0;
  double first_token_seconds = 0, request_seconds = 0;  ///< sums over the requests
  std::uint64_t first_tokens = 0, requests = 0;

  std::string page(const messages::texts_grew& engine, std::size_t open) const {
    runtime::metrics_page to;
    to.counter("troupe_serving_answers_total", "Answers by path and status.");
    for (const auto& [of, count] : answers)
      to.add(double(count), {{"path", of.first}, {"status", std::to_string(of.second)}});
    const auto counter = [&to](const char* name, const char* help, double value) {
      to.counter(name, help).add(value);
    };
    const auto gauge = [&to](const char* name, const char* help, double value) {
      to.gauge(name, help).add(value);
    };
    counter("troupe_serving_prompt_tokens_total", "Tokens of prompts.", double(prompt_tokens));
    counter("troupe_serving_cached_tokens_total",
            "Tokens of prompts from the cache.",
            double(cached_tokens));
    counter("troupe_serving_generated_tokens_total", "Generated tokens.", double(generated_tokens));
    counter("troupe_serving_cancelled_total",
            "Requests whose client left, or that took too long.",
            double(cancelled));
    counter("troupe_serving_requests_total", "Finished requests for texts.", double(requests));
    counter("troupe_serving_request_seconds_total", "Time of finished requests.", request_seconds);
    counter(
        "troupe_serving_first_tokens_total", "Requests with a first token.", double(first_tokens));
    counter("troupe_serving_first_token_seconds_total",
            "Time to the first token.",
            first_token_seconds);
    counter("troupe_serving_preemptions_total",
            "Texts that were computed again.",
            double(engine.preemptions));
    gauge("troupe_serving_open_texts", "Texts that are not finished.", double(open));
    gauge("troupe_serving_running_texts", "Texts that are computed.", double(engine.running));
    gauge(
        "troupe_serving_waiting_texts", "Texts that wait for the engine.", double(engine.waiting));
    gauge(
        "troupe_serving_cache_pages_used", "Pages of the cache in use.", double(engine.pages_used));
    gauge("troupe_serving_cache_pages_free", "Free pages of the cache.", double(engine.pages_free));
    return to.text();
  }
};

}  // namespace troupe::actors
