// The load of Permify's published test, for k6: checks of content:X#view for
// user:Y, which arrive at a growing rate that does not depend on the responses.
// With a probability of 0.3 an id equals the previous one. This file follows
// the test's description and is not a copy. The stages, the body (including a
// field that a check does not have) and the headers are the test's.
import http from "k6/http";
import { check, sleep } from "k6";

const seconds = Number(__ENV.SECONDS || 100); // total duration; the stages have the ratio 1:3:6
const peak = Number(__ENV.PEAK || 10000); // checks per second at the end
const ids = Number(__ENV.IDS || 100000);
const reuse = 0.3;

export const options = {
  scenarios: {
    load: {
      executor: "ramping-arrival-rate",
      startRate: 10,
      timeUnit: "1s",
      preAllocatedVUs: 50,
      maxVUs: Number(__ENV.VUS || 1000),
      stages: [
        { target: peak / 100, duration: `${Math.round(seconds / 10)}s` },
        { target: peak / 10, duration: `${Math.round((3 * seconds) / 10)}s` },
        { target: peak, duration: `${Math.round((6 * seconds) / 10)}s` },
      ],
    },
  },
  thresholds: { checks: ["rate==1"], http_req_failed: ["rate==0"] },
  summaryTrendStats: ["avg", "min", "med", "max", "p(90)", "p(95)", "p(99)"],
};

let last = draw();

function draw() {
  return String(Math.floor(Math.random() * ids));
}

function next() {
  if (Math.random() >= reuse) {
    last = draw();
  }
  return last;
}

export default function () {
  const content = next();
  const user = next();
  const body = {
    metadata: { snap_token: "", schema_version: __ENV.SCHEMA_VERSION || "", depth: 20 },
    entity: { type: "content", id: content },
    permission: "view",
    subject: { type: "user", id: user },
    page_size: 20,
  };
  const response = http.post(__ENV.URL, JSON.stringify(body), {
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${__ENV.TOKEN || "none"}` },
    timeout: 360000,
  });
  check(response, {
    "status is 200": (r) => r.status === 200,
    "it is a decision": (r) => ["CHECK_RESULT_ALLOWED", "CHECK_RESULT_DENIED"].includes(r.json("can")),
  });
  sleep(Number(__ENV.SLEEP === undefined ? 1 : __ENV.SLEEP));
}
