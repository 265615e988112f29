// Emit an event by EventBridge: npm install @aws-sdk/client-eventbridge, and EVENT_BUS_NAME is an output of the
// stack. Whoever sends it needs events:PutEvents on that bus, and no key of Hookkeeper's.

import { EventBridgeClient, PutEventsCommand } from "@aws-sdk/client-eventbridge";

type Event = { id: string; tenant_id: string; data: Record<string, unknown> };

const bus = new EventBridgeClient({});

/** Send it. EventBridge answers 200 even for what it did not take. */
async function emit(type: string, event: Event, busName: string): Promise<void> {
  const entry = { EventBusName: busName, Source: "billing", DetailType: type, Detail: JSON.stringify(event) };
  const answer = await bus.send(new PutEventsCommand({ Entries: [entry] }));
  const [failed] = (answer.Entries ?? []).filter((each) => each.ErrorCode);
  if (failed) throw new Error(`${failed.ErrorCode}: ${failed.ErrorMessage}`);
}

const [tenantId, eventId] = process.argv.slice(2);
const event = { id: eventId, tenant_id: tenantId, data: { invoice: "in_1", amount: 1.1 } };
await emit("invoice.paid", event, process.env.EVENT_BUS_NAME!);
