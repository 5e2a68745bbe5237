// The address of the layout worker, put in by build.mjs.
declare const LAYOUT_WORKER: string;

declare module "*.css";

interface TrustedTypePolicyFactory {
  createPolicy(name: string, rules: { createScriptURL(address: string): string }): {
    createScriptURL(address: string): string;
  };
}
interface Window {
  trustedTypes?: TrustedTypePolicyFactory;
}
